/* SPDX-License-Identifier: MIT */
#include "account/command_words.h"

#include "base/text.h"

#include <string.h>

enum {
    UNWRAPS_MAX = 24,      /* wrappers around one command: more than people stack, few enough to be nothing */
    SHELL_WORDS_MAX = 1024 /* words of all shell strings of one process; its command line is at most UMA_CMDLINE_MAX bytes */
};

/* A program that runs another: its options that take a value as the next word, and how many words of its own follow the options. */
struct wrapper {
    const char *name, *verb; /* verb: must be the next word ("uv run"), or NULL */
    const char *valued;      /* " -u --unset " */
    unsigned positionals;
    bool assignments; /* NAME=VALUE words may follow */
    bool training;    /* torchrun and the like: -m MODULE or a script follows */
};

/* From the programs' own manuals. */
static const struct wrapper wrappers[] = {
    { "env", NULL, " -u --unset -C --chdir ", 0, true, false },
    { "sudo", NULL, " -u --user -g --group -h --host -p --prompt -C -r --role -t --type -T -U -D --chdir -R ", 0, true, false },
    { "doas", NULL, " -u -C ", 0, false, false },
    { "nice", NULL, " -n --adjustment ", 0, false, false },
    { "ionice", NULL, " -c --class -n --classdata ", 0, false, false },
    { "chrt", NULL, " -T --sched-runtime -P --sched-period -D --sched-deadline ", 1, false, false },
    { "numactl", NULL,
      " -i --interleave -w --weighted-interleave -p --preferred -P --preferred-many -C --physcpubind -N --cpunodebind -m --membind ", 0,
      false, false },
    { "taskset", NULL, " ", 1, false, false },
    { "timeout", NULL, " -s --signal -k --kill-after ", 1, false, false },
    { "time", NULL, " -f --format -o --output ", 0, false, false },
    { "stdbuf", NULL, " -i --input -o --output -e --error ", 0, false, false },
    { "nohup", NULL, " ", 0, false, false },
    { "setsid", NULL, " ", 0, false, false },
    { "exec", NULL, " -a ", 0, true, false },
    { "command", NULL, " ", 0, false, false },
    { "tini", NULL, " -p -e ", 0, false, false },
    { "docker-init", NULL, " -p -e ", 0, false, false },
    { "dumb-init", NULL, " -r --rewrite ", 0, false, false },
    { "catatonit", NULL, " ", 0, false, false },
    { "systemd-run", NULL,
      " -p --property -u --unit --slice --uid --gid -E --setenv --description -M --machine -H --host --working-directory ", 0, false,
      false },
    { "systemd-inhibit", NULL, " ", 0, false, false },
    { "gosu", NULL, " ", 1, false, false },
    { "su-exec", NULL, " ", 1, false, false },
    { "uv", "run",
      " --with --with-editable --with-requirements -p --python --extra --group --only-group --project --directory --env-file --package -i "
      "--index --index-url --default-index --extra-index-url ",
      0, false, false },
    { "uvx", NULL, " --from --with -p --python --index --index-url --default-index ", 0, false, false },
    { "poetry", "run", " ", 0, false, false },
    { "pipenv", "run", " ", 0, false, false },
    { "pdm", "run", " -p --project ", 0, false, false },
    { "pixi", "run", " -e --environment --manifest-path ", 0, false, false },
    { "conda", "run", " -n --name -p --prefix --cwd ", 0, false, false },
    { "mamba", "run", " -n --name -p --prefix --cwd ", 0, false, false },
    { "micromamba", "run", " -n --name -p --prefix --cwd ", 0, false, false },
    { "umactl", "run", " --need --name --wait --csv --interval --from --root ", 0, false, false },
    { "srun", NULL, " -n -N -p -t -c -w -G --ntasks --nodes --partition --time --gres --gpus --mem --cpus-per-task --job-name -J ", 0,
      false, false },
    { "nsys", "profile", " -o --output -t --trace -s --sample -d --duration -y --delay ", 0, false, false },
    { "trtllm-llmapi-launch", NULL, " ", 0, false, false },
    { "torchrun", NULL, " ", 0, false, true },
    { "deepspeed", NULL, " ", 0, false, true },
    { "accelerate", "launch", " ", 0, false, true },
};

static const char *const shells[] = { "sh", "bash", "dash", "zsh", "ash", "ksh" };
/* Words that may stand before a command in a shell's string. */
static const char *const shell_words[] = { "if", "then", "else", "elif", "do", "while", "until", "!", "{", "(" };
/* Modules that are launchers. */
static const char *const training_modules[] = { "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
                                                "deepspeed.launcher.runner", "deepspeed.launcher.launch" };
/* Their options that take no value (from their --help); others take one unless a script or another option follows. */
static const char training_flags[] =
    " --standalone --no-python --no_python --run-path --run_path --multi_gpu --multi-gpu --use_deepspeed --use-deepspeed --use_fsdp "
    "--use-fsdp --quiet -q --debug --cpu --use_cpu --tpu --no_local_rank --use_env --same_network --no_ssh ";

struct span {
    const char *const *words;
    size_t n;
};

struct resolver {
    struct uma_arena *arena;
    struct uma_command_words *found;
    size_t n_found;
    struct span pending[UMA_COMMANDS_MAX]; /* commands of shell strings, the next one last */
    size_t n_pending;
    size_t shell_words_left;
};

static bool one_of(const char *s, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(s, list[i]) == 0)
            return true;
    return false;
}

/* Is `word` (n bytes) in a list of words with a space on both sides of each? */
static bool listed(const char *list, const char *word, size_t n) {
    if (n == 0 || memchr(word, ' ', n))
        return false;
    for (const char *p = list; (p = strchr(p, ' ')); p++)
        if (strncmp(p + 1, word, n) == 0 && p[1 + n] == ' ')
            return true;
    return false;
}

const char *uma_path_last(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_assignment(const char *word) {
    size_t name = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return name > 0 && word[name] == '=';
}

/* "python", "python3", "python3.12", "pypy3", and their -dbg builds. */
static bool is_python(const char *name) {
    size_t n = strncmp(name, "python", 6) == 0 ? 6 : strncmp(name, "pypy", 4) == 0 ? 4 : 0;
    return n > 0 && strspn(name + n, "0123456789.tdbg-") == strlen(name + n);
}

static void drop(struct span *s, size_t n) {
    n = n < s->n ? n : s->n;
    s->words += n;
    s->n -= n;
}

/* Past options up to the first other word; words of `valued` take the next one with them. "--" ends them. */
static void drop_options(struct span *s, const char *valued) {
    while (s->n > 0 && s->words[0][0] == '-' && s->words[0][1] != '\0') {
        bool end = strcmp(s->words[0], "--") == 0;
        drop(s, listed(valued, s->words[0], strlen(s->words[0])) ? 2 : 1);
        if (end)
            return;
    }
}

static const struct wrapper *wrapper_of(const char *name, const struct span *s) {
    for (size_t i = 0; i < ELEMENTS(wrappers); i++)
        if (strcmp(name, wrappers[i].name) == 0 && (!wrappers[i].verb || (s->n > 1 && strcmp(s->words[1], wrappers[i].verb) == 0)))
            return &wrappers[i];
    return NULL;
}

static void add(struct resolver *r, struct uma_command_words command) {
    if (r->n_found < UMA_COMMANDS_MAX)
        r->found[r->n_found++] = command;
}

/* ---- shell strings ------------------------------------------------------------------------------------------ */

struct splitter {
    const char *begin, *at;
    char *out; /* where the next word goes: never more bytes than the string has */
    const char **words;
    size_t n, room;
    struct span commands[UMA_COMMANDS_MAX];
    size_t n_commands, first; /* first: word that the command being read began with */
};

static void end_command(struct splitter *s) {
    while (s->first < s->n && one_of(s->words[s->first], shell_words, ELEMENTS(shell_words)))
        s->first++;
    if (s->n > s->first && s->n_commands < UMA_COMMANDS_MAX)
        s->commands[s->n_commands++] = (struct span){ s->words + s->first, s->n - s->first };
    s->first = s->n;
}

/* One word with its quotes resolved; the variables in it stay as they are written. */
static void read_word(struct splitter *s, bool keep) {
    char *start = s->out, quote = '\0';
    for (; *s->at; s->at++) {
        char c = *s->at;
        if (!quote && strchr(" \t\n;|&<>()", c))
            break;
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? '\0' : c;
            continue;
        }
        if (c == '\\' && quote != '\'' && s->at[1]) {
            c = *++s->at;
            if (c == '\n')
                continue;
        }
        *s->out++ = c;
    }
    *s->out++ = '\0';
    if (keep && s->n < s->room)
        s->words[s->n++] = start;
}

static bool all_digits(const char *s) {
    return *s && strspn(s, "0123456789") == strlen(s);
}

/* ">file", "2>&1", "<<<x": where output goes is no part of the command. */
static void skip_redirection(struct splitter *s) {
    if (s->n > s->first && s->at > s->begin && s->at[-1] != ' ' && all_digits(s->words[s->n - 1]))
        s->n--;
    s->at += strspn(s->at, "<>&|");
    s->at += strspn(s->at, " \t");
    read_word(s, false);
}

static void split(struct splitter *s) {
    while (*s->at) {
        char c = *s->at;
        if (c == ' ' || c == '\t' || (c == '\\' && s->at[1] == '\n')) {
            s->at += c == '\\' ? 2 : 1;
        } else if (strchr(";|&\n()", c)) {
            end_command(s);
            s->at++;
        } else if (c == '<' || c == '>') {
            skip_redirection(s);
        } else if (c == '#') {
            s->at += strcspn(s->at, "\n");
        } else {
            read_word(s, true);
        }
    }
    end_command(s);
}

/* Puts the commands of a shell's string before all that waits, so that they come out in order. */
static void push_shell(struct resolver *r, const char *string) {
    size_t length = strnlen(string, UMA_CMDLINE_MAX);
    struct splitter s = { .room = r->shell_words_left };
    char *copy = uma_arena_strndup(r->arena, string, length);
    s.words = uma_arena_array(r->arena, length / 2 + 1 < s.room ? length / 2 + 1 : s.room, sizeof(*s.words));
    s.out = uma_arena_alloc(r->arena, 2 * length + 2); /* each word ends in a NUL of its own */
    if (!copy || !s.words || !s.out)
        return;
    s.room = length / 2 + 1 < s.room ? length / 2 + 1 : s.room;
    s.begin = s.at = copy;
    split(&s);
    r->shell_words_left -= s.n < r->shell_words_left ? s.n : r->shell_words_left;
    for (size_t i = s.n_commands; i > 0 && r->n_pending < UMA_COMMANDS_MAX; i--)
        r->pending[r->n_pending++] = s.commands[i - 1];
}

/* "bash -lc STRING ..."; returns false for a shell that runs a script or waits for a person. */
static bool unwrap_shell(struct resolver *r, const struct span *s) {
    for (size_t i = 1; i < s->n && (s->words[i][0] == '-' || s->words[i][0] == '+'); i++) {
        if (s->words[i][0] == '-' && s->words[i][1] != '-' && strchr(s->words[i], 'c')) {
            if (i + 1 < s->n)
                push_shell(r, s->words[i + 1]);
            return true;
        }
        if (s->words[i][strlen(s->words[i]) - 1] == 'o') /* -o pipefail, -eo pipefail */
            i++;
    }
    return false;
}

/* ---- interpreters and launchers ----------------------------------------------------------------------------- */

static void finish_module(struct resolver *r, struct span s, bool launched) {
    struct uma_command_words c = { .program = "python", .python = true, .launched = launched };
    if (s.n > 0) {
        c.module = s.words[0];
        drop(&s, 1);
    }
    c.n = s.n;
    c.args = s.words;
    add(r, c);
}

/* After a launcher's name: its options, then "-m MODULE" or a script. Returns true when the command is done. */
static bool unwrap_training(struct resolver *r, struct span *s) {
    while (s->n > 0 && s->words[0][0] == '-') {
        const char *word = s->words[0];
        if (strcmp(word, "-m") == 0 || strcmp(word, "--module") == 0) {
            drop(s, 1);
            finish_module(r, *s, true);
            return true;
        }
        if (strcmp(word, "--") == 0) {
            drop(s, 1);
            return false;
        }
        bool alone = strchr(word, '=') || listed(training_flags, word, strlen(word));
        bool value_follows = s->n > 1 && s->words[1][0] != '-' && !uma_ends_with(s->words[1], ".py");
        drop(s, !alone && value_follows ? 2 : 1);
    }
    return false;
}

/*
 * At a Python interpreter. Returns true when the command is done (a module, a .py script, -c, or nothing); else *s begins at a program
 * written in Python (bin/vllm) or the rest of a launcher's words.
 */
static bool unwrap_python(struct resolver *r, struct span *s, bool *launched) {
    drop(s, 1);
    while (s->n > 0 && s->words[0][0] == '-') {
        const char *word = s->words[0];
        size_t letters = strspn(word + 1, "bBdEhiIOPqRsSuvVx?");
        if (word[1 + letters] == 'm') { /* "-m x", "-um x", "-mx" */
            const char *attached = word + 2 + letters;
            if (*attached) {
                add(r, (struct uma_command_words){ "python", attached, NULL, true, *launched, s->n - 1, s->words + 1 });
                return true;
            }
            drop(s, 1);
            if (s->n > 0 && one_of(s->words[0], training_modules, ELEMENTS(training_modules))) {
                *launched = true;
                drop(s, 1);
                return unwrap_training(r, s);
            }
            finish_module(r, *s, *launched);
            return true;
        }
        if (word[1 + letters] == 'c') /* code as text: what it runs is not looked into */
            break;
        drop(s, (word[1] == 'X' || word[1] == 'W') && word[2] == '\0' ? 2 : 1);
    }
    if (s->n > 0 && s->words[0][0] != '-')
        return false;
    add(r, (struct uma_command_words){ "python", NULL, NULL, true, *launched, s->n, s->words });
    return true;
}

/* ---- all of it ---------------------------------------------------------------------------------------------- */

static void finish_program(struct resolver *r, struct span s, bool python, bool launched) {
    bool script = uma_ends_with(s.words[0], ".py");
    add(r, (struct uma_command_words){ .program = script ? "python" : uma_path_last(s.words[0]),
                                       .script = script ? s.words[0] : NULL,
                                       .python = python || script,
                                       .launched = launched,
                                       .n = s.n - 1,
                                       .args = s.words + 1 });
}

static void resolve_one(struct resolver *r, struct span s) {
    bool python = false, launched = false, assignments = true; /* a shell allows them before any command */
    for (int round = 0; round < UNWRAPS_MAX; round++) {
        while (assignments && s.n > 0 && is_assignment(s.words[0]))
            drop(&s, 1);
        if (s.n == 0)
            break;
        const char *name = uma_path_last(s.words[0]);
        name += name[0] == '-' ? 1 : 0; /* a login shell's */
        const struct wrapper *w = wrapper_of(name, &s);
        if (w && w->training) {
            drop(&s, w->verb ? 2 : 1);
            launched = true;
            if (unwrap_training(r, &s))
                return;
        } else if (w) {
            drop(&s, w->verb ? 2 : 1);
            drop_options(&s, w->valued);
            drop(&s, w->positionals);
            assignments = w->assignments;
        } else if (one_of(name, shells, ELEMENTS(shells)) && unwrap_shell(r, &s)) {
            return;
        } else if (is_python(name)) {
            python = true;
            if (unwrap_python(r, &s, &launched))
                return;
        } else {
            finish_program(r, s, python, launched);
            return;
        }
    }
    if (launched || python) /* a launcher whose script could not be told from its options */
        add(r, (struct uma_command_words){ .program = "python", .python = true, .launched = launched, .n = s.n, .args = s.words });
}

size_t uma_command_resolve(const char *const *argv, size_t argc, struct uma_arena *arena,
                           struct uma_command_words ret_commands[UMA_COMMANDS_MAX]) {
    struct resolver r = { .arena = arena, .found = ret_commands, .shell_words_left = SHELL_WORDS_MAX };
    r.pending[r.n_pending++] = (struct span){ argv, argc };
    /* A shell string inside a shell string takes a turn as well. */
    for (int turn = 0; r.n_pending > 0 && turn < 4 * UMA_COMMANDS_MAX; turn++)
        resolve_one(&r, r.pending[--r.n_pending]);
    return r.n_found;
}

/* Do a typed word and a flag name the same option? `n`: bytes of the word before '=' or its end. */
static bool same_option(const char *word, size_t n, const char *flag) {
    if (strlen(flag) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char a = word[i] == '_' ? '-' : word[i], b = flag[i] == '_' ? '-' : flag[i];
        if (a != b)
            return false;
    }
    return true;
}

enum uma_option_state uma_option_find(const struct uma_command_words *command, const char *flag, const char **ret_value) {
    enum uma_option_state state = UMA_OPTION_NOT_GIVEN;
    for (size_t i = 0; i < command->n; i++) {
        const char *word = command->args[i];
        if (word[0] != '-')
            continue;
        if (strcmp(word, "--") == 0)
            break;
        size_t n = strcspn(word, "=");
        if (!same_option(word, n, flag))
            continue;
        const char *value = NULL;
        if (word[n] == '=')
            value = word + n + 1;
        else if (i + 1 < command->n && strncmp(command->args[i + 1], "--", 2) != 0)
            value = command->args[++i];
        state = value ? UMA_OPTION_GIVEN : UMA_OPTION_WITHOUT_VALUE;
        if (value)
            *ret_value = value;
    }
    return state;
}
