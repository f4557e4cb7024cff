/* SPDX-License-Identifier: MIT */
/*
 * charlm.c - a character-level language model trained for real, on the CPU, in one file: the demonstration job of `umactl run`.
 *
 * The model is the multilayer perceptron of Bengio et al., "A Neural Probabilistic Language Model" (JMLR 3, 2003): the last K characters
 * are looked up in a table, joined, passed through a tanh layer, and a softmax says which character comes next. Gradients are written out
 * by hand, the optimiser is Adam (Kingma and Ba, 2015).
 *
 * What makes it a fair stand-in for a training job: its weights are a file that is mapped shared (created on the first run, and trained
 * further by the next one), gradients and Adam's moments are anonymous memory, --memory adds a buffer that is really touched, and each
 * iteration prints its loss and step time as training logs do.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    CONTEXT = 8,  /* characters that the model looks back */
    EMBED = 16,   /* numbers per character */
    SYMBOLS = 96, /* newline and the printable ASCII characters; anything else is a space */
    THREADS_MAX = 64,
    CORPUS_MAX = 64 << 20,
};

struct layout { /* of the weights, in floats; gradients and moments have the same */
    size_t embed, w1, b1, w2, b2, total;
};

struct header { /* of the weights file, one page */
    char magic[8];
    uint32_t hidden, context, embed, symbols;
    uint64_t steps;
};
#define MAGIC "charlm1"
#define HEADER_BYTES 4096

struct options {
    const char *weights, *text;
    int hidden, batch, threads;
    long steps;
    double seconds, rate;
    size_t memory;
};

struct worker {
    pthread_t thread;
    const struct trainer *trainer;
    float *gradient;
    double loss;
    int from, to;
    float *hidden, *d_hidden, *logits;
};

struct trainer {
    struct options options;
    struct layout layout;
    struct header *header;
    float *weights, *moment1, *moment2;
    unsigned char *corpus;
    size_t length;
    int *starts; /* of this batch */
    uint64_t random;
    pthread_barrier_t begin, end;
    int stop;
    struct worker workers[THREADS_MAX];
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo) {
    (void)signo;
    interrupted = 1;
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static _Noreturn void die(const char *what) {
    (void)fprintf(stderr, "charlm: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *allocate(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        die("memory");
    return p;
}

static uint64_t next_random(uint64_t *state) { /* xorshift64*, Vigna 2016 */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ull;
}

static float uniform(uint64_t *state, float scale) {
    return ((float)(next_random(state) >> 40) / (float)(1 << 24) * 2 - 1) * scale;
}

static struct layout layout_of(int hidden) {
    struct layout l = { 0 };
    size_t h = (size_t)hidden;
    l.embed = 0;
    l.w1 = l.embed + (size_t)SYMBOLS * EMBED;
    l.b1 = l.w1 + h * CONTEXT * EMBED;
    l.w2 = l.b1 + h;
    l.b2 = l.w2 + (size_t)SYMBOLS * h;
    l.total = l.b2 + SYMBOLS;
    return l;
}

/* ---- text ---------------------------------------------------------------------------------------------------- */

static unsigned char symbol(int c) {
    return c == '\n' ? 0 : c >= 32 && c < 127 ? (unsigned char)(c - 31) : 1;
}

/* Without a file: sentences of a small grammar. Enough structure that a model that learns shows it, and the same everywhere. */
static void make_corpus(struct trainer *t) {
    static const char *const who[] = {
        "the pool", "a model", "the kernel", "one job", "the cache", "the driver", "every page", "the loader"
    };
    static const char *const does[] = { "keeps", "frees", "maps", "waits for", "reads", "counts", "gives back", "takes" };
    static const char *const what[] = { "its memory",         "the weights", "a block",    "the last page",
                                        "more than it needs", "nothing",     "the buffer", "a gradient" };
    static const char *const how[] = { "",           " at once", " after the first step", " while the board is warm", " again and again",
                                       " in the end" };
    uint64_t r = 88172645463325252ull;
    size_t room = 1 << 20;
    t->corpus = allocate(room);
    while (t->length + 128 < room) {
        char line[128];
        int n = snprintf(line, sizeof(line), "%s %s %s%s.\n", who[next_random(&r) % 8], does[next_random(&r) % 8],
                         what[next_random(&r) % 8], how[next_random(&r) % 6]);
        for (int i = 0; i < n; i++)
            t->corpus[t->length++] = symbol((unsigned char)line[i]);
    }
}

static void read_corpus(struct trainer *t) {
    struct stat st;
    int fd = open(t->options.text, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        die(t->options.text);
    size_t room = (size_t)(st.st_size > CORPUS_MAX ? CORPUS_MAX : st.st_size);
    t->corpus = allocate(room);
    while (t->length < room) {
        ssize_t n = read(fd, t->corpus + t->length, room - t->length);
        if (n < 0)
            die(t->options.text);
        if (n == 0)
            break;
        t->length += (size_t)n;
    }
    (void)close(fd);
    for (size_t i = 0; i < t->length; i++)
        t->corpus[i] = symbol(t->corpus[i]);
    if (t->length < 16 * CONTEXT) {
        (void)fprintf(stderr, "charlm: %s: %zu characters are too few to learn from\n", t->options.text, t->length);
        exit(1);
    }
}

/* ---- weights ------------------------------------------------------------------------------------------------- */

static void first_weights(struct trainer *t) {
    uint64_t r = 42;
    int hidden = t->options.hidden;
    float s1 = 1 / sqrtf((float)(CONTEXT * EMBED)), s2 = 1 / sqrtf((float)hidden);
    for (size_t i = 0; i < t->layout.w1; i++)
        t->weights[i] = uniform(&r, 0.5f);
    for (size_t i = t->layout.w1; i < t->layout.b1; i++)
        t->weights[i] = uniform(&r, s1);
    for (size_t i = t->layout.w2; i < t->layout.b2; i++)
        t->weights[i] = uniform(&r, s2);
    memcpy(t->header->magic, MAGIC, sizeof(MAGIC));
    t->header->hidden = (uint32_t)hidden;
    t->header->context = CONTEXT;
    t->header->embed = EMBED;
    t->header->symbols = SYMBOLS;
}

/* The file is the weights: mapped shared, so that every step is in it (and in the page cache) without a copy. */
static void map_weights(struct trainer *t) {
    size_t bytes = HEADER_BYTES + t->layout.total * sizeof(float);
    int fd = open(t->options.weights, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(t->options.weights);
    int fresh = st.st_size == 0;
    if (fresh && ftruncate(fd, (off_t)bytes) < 0)
        die(t->options.weights);
    if (!fresh && (size_t)st.st_size != bytes) {
        (void)fprintf(stderr, "charlm: %s: %lld bytes, expected %zu for --hidden %d; remove it or give the same --hidden\n",
                      t->options.weights, (long long)st.st_size, bytes, t->options.hidden);
        exit(1);
    }
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        die(t->options.weights);
    (void)close(fd);
    t->header = (struct header *)(void *)map;
    t->weights = (float *)(void *)(map + HEADER_BYTES);
    if (fresh)
        first_weights(t);
    else if (memcmp(t->header->magic, MAGIC, sizeof(MAGIC)) != 0 || t->header->hidden != (uint32_t)t->options.hidden) {
        (void)fprintf(stderr, "charlm: %s: not weights of this program and size\n", t->options.weights);
        exit(1);
    }
    (void)printf("weights %s: %.1f MiB, %s after %llu steps\n", t->options.weights, (double)bytes / 1048576, fresh ? "new" : "going on",
                 (unsigned long long)t->header->steps);
}

/* ---- one step ------------------------------------------------------------------------------------------------ */

/* Forward and backward of one position: adds to the gradient, returns the loss in nats. */
static double position(struct worker *w, const unsigned char *x) {
    const struct trainer *t = w->trainer;
    const struct layout *l = &t->layout;
    const float *p = t->weights;
    float *g = w->gradient;
    int hidden = t->options.hidden, target = x[CONTEXT];
    float in[CONTEXT * EMBED], d_in[CONTEXT * EMBED] = { 0 };
    for (int k = 0; k < CONTEXT; k++)
        memcpy(in + k * EMBED, p + l->embed + (size_t)x[k] * EMBED, EMBED * sizeof(float));
    for (int j = 0; j < hidden; j++) {
        const float *row = p + l->w1 + (size_t)j * CONTEXT * EMBED;
        float sum = p[l->b1 + (size_t)j];
        for (int i = 0; i < CONTEXT * EMBED; i++)
            sum += row[i] * in[i];
        w->hidden[j] = tanhf(sum);
        w->d_hidden[j] = 0;
    }
    float most = -1e30f, total = 0;
    for (int s = 0; s < SYMBOLS; s++) {
        const float *row = p + l->w2 + (size_t)s * (size_t)hidden;
        float sum = p[l->b2 + (size_t)s];
        for (int j = 0; j < hidden; j++)
            sum += row[j] * w->hidden[j];
        w->logits[s] = sum;
        most = fmaxf(most, sum);
    }
    for (int s = 0; s < SYMBOLS; s++)
        total += w->logits[s] = expf(w->logits[s] - most);
    double loss = -log((double)(w->logits[target] / total) + 1e-12);
    for (int s = 0; s < SYMBOLS; s++) {
        float d = w->logits[s] / total - (s == target ? 1.0f : 0.0f); /* softmax and cross entropy together */
        const float *row = p + l->w2 + (size_t)s * (size_t)hidden;
        float *d_row = g + l->w2 + (size_t)s * (size_t)hidden;
        g[l->b2 + (size_t)s] += d;
        for (int j = 0; j < hidden; j++) {
            d_row[j] += d * w->hidden[j];
            w->d_hidden[j] += d * row[j];
        }
    }
    for (int j = 0; j < hidden; j++) {
        float d = w->d_hidden[j] * (1 - w->hidden[j] * w->hidden[j]);
        const float *row = p + l->w1 + (size_t)j * CONTEXT * EMBED;
        float *d_row = g + l->w1 + (size_t)j * CONTEXT * EMBED;
        g[l->b1 + (size_t)j] += d;
        for (int i = 0; i < CONTEXT * EMBED; i++) {
            d_row[i] += d * in[i];
            d_in[i] += d * row[i];
        }
    }
    for (int k = 0; k < CONTEXT; k++)
        for (int i = 0; i < EMBED; i++)
            g[l->embed + (size_t)x[k] * EMBED + (size_t)i] += d_in[k * EMBED + i];
    return loss;
}

static void *work(void *userdata) {
    struct worker *w = userdata;
    struct trainer *t = (struct trainer *)(uintptr_t)w->trainer;
    for (;;) {
        (void)pthread_barrier_wait(&t->begin);
        if (t->stop)
            return NULL;
        memset(w->gradient, 0, t->layout.total * sizeof(float));
        w->loss = 0;
        for (int b = w->from; b < w->to; b++)
            w->loss += position(w, t->corpus + t->starts[b]);
        (void)pthread_barrier_wait(&t->end);
    }
}

static void adam(struct trainer *t, uint64_t step) {
    const float beta1 = 0.9f, beta2 = 0.999f;
    float c1 = 1 - powf(beta1, (float)step), c2 = 1 - powf(beta2, (float)step), scale = 1.0f / (float)t->options.batch;
    for (size_t i = 0; i < t->layout.total; i++) {
        float g = 0;
        for (int n = 0; n < t->options.threads; n++)
            g += t->workers[n].gradient[i];
        g *= scale;
        t->moment1[i] = beta1 * t->moment1[i] + (1 - beta1) * g;
        t->moment2[i] = beta2 * t->moment2[i] + (1 - beta2) * g * g;
        t->weights[i] -= (float)t->options.rate * (t->moment1[i] / c1) / (sqrtf(t->moment2[i] / c2) + 1e-8f);
    }
}

static double step(struct trainer *t, uint64_t number) {
    double loss = 0;
    for (int b = 0; b < t->options.batch; b++)
        t->starts[b] = (int)(next_random(&t->random) % (t->length - CONTEXT - 1));
    (void)pthread_barrier_wait(&t->begin);
    (void)pthread_barrier_wait(&t->end);
    for (int n = 0; n < t->options.threads; n++)
        loss += t->workers[n].loss;
    adam(t, number);
    return loss / t->options.batch;
}

static void train(struct trainer *t) {
    double start = now(), told = 0, loss_sum = 0, first = 0, last = 0, step_sum = 0;
    long steps = 0, in_line = 0;
    while (!interrupted && (t->options.steps == 0 || steps < t->options.steps) && now() - start < t->options.seconds) {
        double before = now();
        double loss = step(t, (uint64_t)++steps);
        double after = now();
        loss_sum += loss;
        step_sum += after - before;
        in_line++;
        t->header->steps++;
        /* a line per step at first, then two a second: what a training log looks like */
        if (steps > 5 && after - told < 0.5)
            continue;
        last = loss_sum / (double)in_line;
        if (steps == 1)
            first = last;
        (void)printf("iter %ld loss %.4f step %.1f ms %.0f characters/s\n", steps, last, 1000 * step_sum / (double)in_line,
                     (double)t->options.batch * (double)in_line / step_sum);
        (void)fflush(stdout);
        told = after;
        loss_sum = step_sum = 0;
        in_line = 0;
    }
    (void)printf("%s after %ld steps in %.1f s: loss %.4f -> %.4f\n", interrupted ? "interrupted" : "done", steps, now() - start, first,
                 last);
}

/* Continue a line of text with what the model finds likely. */
static void write_sample(struct trainer *t) {
    struct worker *w = &t->workers[0];
    unsigned char x[CONTEXT + 1];
    memcpy(x, t->corpus, CONTEXT);
    (void)printf("it writes: ");
    for (int n = 0; n < 160; n++) {
        x[CONTEXT] = 0;
        (void)position(w, x);
        float total = 0;
        for (int s = 0; s < SYMBOLS; s++)
            total += w->logits[s];
        float at = (float)(next_random(&t->random) >> 40) / (float)(1 << 24) * total;
        int s = 0;
        while (s < SYMBOLS - 1 && (at -= w->logits[s]) > 0)
            s++;
        (void)putchar(s == 0 ? '/' : s + 31);
        memmove(x, x + 1, CONTEXT - 1);
        x[CONTEXT - 1] = (unsigned char)s;
    }
    (void)putchar('\n');
}

/* ---- options ------------------------------------------------------------------------------------------------- */

static const char usage[] =
    "usage: charlm [OPTION...]\n"
    "\n"
    "Train a small character-level language model on the CPU. Prints loss and step time.\n"
    "\n"
    "      --weights FILE   map the weights from FILE; made on the first run, trained further by the next (default charlm.weights)\n"
    "      --text FILE      learn from FILE (default: sentences it makes up)\n"
    "      --hidden N       width of the model, 8 to 65536 (default 256)\n"
    "      --batch N        characters per step, 1 to 1048576 (default 512)\n"
    "      --steps N        end after N steps (default: no limit)\n"
    "      --seconds S      end after S seconds (default 20)\n"
    "      --rate R         learning rate (default 0.002)\n"
    "      --threads N      1 to 64 (default: as many as there are CPUs)\n"
    "      --memory MIB     touch and keep a buffer of so many MiB besides (default 0)\n"
    "  -h, --help           print this\n";

static double number(const char *name, const char *s, double least, double most) {
    char *end;
    errno = 0;
    double v = strtod(s, &end);
    if (end == s || *end || errno || !(v >= least && v <= most)) {
        (void)fprintf(stderr, "charlm: --%s %s: expected a number from %g to %g\n", name, s, least, most);
        exit(2);
    }
    return v;
}

static void read_options(struct options *o, int argc, char **argv) {
    static const struct option options[] = {
        { "weights", required_argument, NULL, 'w' },
        { "text", required_argument, NULL, 't' },
        { "hidden", required_argument, NULL, 'H' },
        { "batch", required_argument, NULL, 'b' },
        { "steps", required_argument, NULL, 's' },
        { "seconds", required_argument, NULL, 'S' },
        { "rate", required_argument, NULL, 'r' },
        { "threads", required_argument, NULL, 'n' },
        { "memory", required_argument, NULL, 'm' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    *o = (struct options){ .weights = "charlm.weights", .hidden = 256, .batch = 512, .seconds = 20, .rate = 0.002 };
    o->threads = cpus < 1 ? 1 : cpus > THREADS_MAX ? THREADS_MAX : (int)cpus;
    for (int c, i = 0; (c = getopt_long(argc, argv, "h", options, &i)) != -1;) {
        const char *name = c == 'h' || c == '?' ? "" : options[i].name;
        switch (c) {
        case 'w':
            o->weights = optarg;
            break;
        case 't':
            o->text = optarg;
            break;
        case 'H':
            o->hidden = (int)number(name, optarg, 8, 65536);
            break;
        case 'b':
            o->batch = (int)number(name, optarg, 1, 1048576);
            break;
        case 's':
            o->steps = (long)number(name, optarg, 1, 1e12);
            break;
        case 'S':
            o->seconds = number(name, optarg, 0.01, 1e9);
            break;
        case 'r':
            o->rate = number(name, optarg, 1e-8, 10);
            break;
        case 'n':
            o->threads = (int)number(name, optarg, 1, THREADS_MAX);
            break;
        case 'm':
            o->memory = (size_t)number(name, optarg, 0, 1e9) << 20;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            exit(0);
        default:
            (void)fputs("charlm: --help lists the options\n", stderr);
            exit(2);
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "charlm: unexpected argument %s\n", argv[optind]);
        exit(2);
    }
}

int main(int argc, char **argv) {
    static struct trainer t;
    struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };
    read_options(&t.options, argc, argv);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    t.layout = layout_of(t.options.hidden);
    t.random = (uint64_t)time(NULL) * 2654435761u + 1;
    if (t.options.text)
        read_corpus(&t);
    else
        make_corpus(&t);
    map_weights(&t);
    if (t.options.threads > t.options.batch)
        t.options.threads = t.options.batch;
    size_t bytes = t.layout.total * sizeof(float);
    t.moment1 = allocate(bytes);
    t.moment2 = allocate(bytes);
    t.starts = allocate((size_t)t.options.batch * sizeof(int));
    unsigned char *kept = t.options.memory ? malloc(t.options.memory) : NULL;
    if (t.options.memory && !kept)
        die("--memory");
    for (size_t i = 0; i < t.options.memory; i += 4096)
        ((volatile unsigned char *)kept)[i] = (unsigned char)(i >> 12); /* touched: claimed memory that is not there would be a lie */
    (void)pthread_barrier_init(&t.begin, NULL, (unsigned)t.options.threads + 1);
    (void)pthread_barrier_init(&t.end, NULL, (unsigned)t.options.threads + 1);
    for (int n = 0; n < t.options.threads; n++) {
        struct worker *w = &t.workers[n];
        w->trainer = &t;
        w->gradient = allocate(bytes);
        w->hidden = allocate((size_t)t.options.hidden * sizeof(float));
        w->d_hidden = allocate((size_t)t.options.hidden * sizeof(float));
        w->logits = allocate(SYMBOLS * sizeof(float));
        w->from = (int)((long)t.options.batch * n / t.options.threads);
        w->to = (int)((long)t.options.batch * (n + 1) / t.options.threads);
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            die("thread");
    }
    (void)printf("%zu weights, %zu characters, batch %d, %d threads; %.1f MiB weights, gradients and moments, %zu MiB besides\n",
                 t.layout.total, t.length, t.options.batch, t.options.threads, (double)bytes * (3 + t.options.threads) / 1048576,
                 t.options.memory >> 20);
    train(&t);
    t.stop = 1;
    (void)pthread_barrier_wait(&t.begin);
    for (int n = 0; n < t.options.threads; n++)
        (void)pthread_join(t.workers[n].thread, NULL);
    write_sample(&t);
    free(kept);
    return interrupted ? 130 : 0;
}
