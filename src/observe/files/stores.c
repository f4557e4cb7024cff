/* SPDX-License-Identifier: MIT */
/*
 * Where models lie, from four sources: this process's environment (what it names is looked at whatever it lies on), the environment and command lines of running
 * processes, the usual places below every home, and the usual places of a machine. What other users name or link to is looked up name by name
 * (local_path.h), so that no server that does not answer is waited for.
 */
#include "observe/files/stores.h"

#include "base/text.h"
#include "observe/files/hub.h"
#include "observe/files/local_path.h"
#include "observe/files/model_words.h"
#include "observe/intern.h"
#include "observe/lines.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

/* Accounts of one machine; those of a directory server are not in /etc/passwd. */
enum { HOMES_MAX = 1024, PASSWD_MAX = 1 << 20 };
/* Paths that are looked up, most of which are not there; some us each. */
enum { LOOKUPS_MAX = 65536 };
/* Absolute paths of one command line that are looked up: an engine names a handful; `rm` and compilers name thousands. */
enum { ARGUMENTS_MAX = 32 };
/* Mount namespaces whose tables are kept at once; a host of many containers looks into these alone. */
enum { VIEWS_MAX = 64 };
enum { MOUNTS_BYTES_MAX = 64 << 20 };

/* ---- the lists -------------------------------------------------------------------------------------------------- */

/* Besides uma_hub_places. XDG_CACHE_HOME counts for each program that keeps to the XDG base directory specification. */
static const struct {
    const char *variable, *below;
    enum uma_store_kind kind;
} variables[] = {
    { "TRANSFORMERS_CACHE", "", UMA_STORE_HUB }, /* transformers before 5 */
    { "SENTENCE_TRANSFORMERS_HOME", "", UMA_STORE_HUB },
    { "HF_XET_CACHE", "", UMA_STORE_FOLDER }, /* hf_xet: chunks of what was downloaded */
    { "HF_HOME", "/xet", UMA_STORE_FOLDER },
    { "OLLAMA_MODELS", "", UMA_STORE_OLLAMA },              /* envconfig/config.go of ollama/ollama */
    { "MODELSCOPE_CACHE", "", UMA_STORE_FOLDER },           /* modelscope, file_utils.py */
    { "TORCH_HOME", "/hub/checkpoints", UMA_STORE_FOLDER }, /* torch/hub.py */
    { "LLAMA_CACHE", "", UMA_STORE_FOLDER },                /* common/arg.cpp of llama.cpp, and the next two */
    { "LLAMA_ARG_MODELS_DIR", "", UMA_STORE_FOLDER },
    { "LLAMA_ARG_MODEL", "", UMA_STORE_FOLDER },
    { "NIM_CACHE_PATH", "", UMA_STORE_HUB },     /* NIM's documentation */
    { "VLLM_CACHE_ROOT", "", UMA_STORE_FOLDER }, /* vllm/envs.py */
    { "VLLM_ASSETS_CACHE", "", UMA_STORE_FOLDER },
    { "COMFYUI_PATH", "/models", UMA_STORE_FOLDER }, /* comfy-cli */
    { "XDG_CACHE_HOME", "/llama.cpp", UMA_STORE_FOLDER },
    { "XDG_CACHE_HOME", "/torch/hub/checkpoints", UMA_STORE_FOLDER },
    { "XDG_CACHE_HOME", "/vllm", UMA_STORE_FOLDER },
};

/* The same programs' places when nobody set anything, and what people make in a home. */
static const struct {
    const char *below;
    enum uma_store_kind kind;
} home_places[] = {
    { "/.cache/huggingface/hub", UMA_STORE_HUB },
    { "/.cache/huggingface/xet", UMA_STORE_FOLDER },
    { "/.cache/huggingface/transformers", UMA_STORE_HUB },
    { "/.ollama/models", UMA_STORE_OLLAMA },
    { "/.lmstudio/models", UMA_STORE_FOLDER },
    { "/.cache/lm-studio/models", UMA_STORE_FOLDER }, /* LM Studio before 0.3.6 */
    { "/.cache/llama.cpp", UMA_STORE_FOLDER },
    { "/.cache/modelscope", UMA_STORE_FOLDER },
    { "/.cache/torch/hub/checkpoints", UMA_STORE_FOLDER },
    { "/.cache/vllm", UMA_STORE_FOLDER },
    { "/.cache/nim", UMA_STORE_HUB },
    { "/.local/share/nomic.ai/GPT4All", UMA_STORE_FOLDER },
    { "/ComfyUI/models", UMA_STORE_FOLDER },
    { "/text-generation-webui/models", UMA_STORE_FOLDER },
    { "/text-generation-webui/user_data/models", UMA_STORE_FOLDER },
    { "/stable-diffusion-webui/models", UMA_STORE_FOLDER },
    { "/models", UMA_STORE_FOLDER },
};

static const struct {
    const char *path;
    enum uma_store_kind kind;
} machine_places[] = {
    { "/usr/share/ollama/.ollama/models", UMA_STORE_OLLAMA }, /* the service's own user, as Ollama's install script makes it */
    { "/var/lib/ollama/models", UMA_STORE_OLLAMA },           /* distributions' packages */
    { "/var/lib/ollama", UMA_STORE_OLLAMA },
    { "/var/lib/ollama/.ollama/models", UMA_STORE_OLLAMA },
    { "/var/snap/ollama/common/models", UMA_STORE_OLLAMA },
    { "/models", UMA_STORE_FOLDER },
    { "/data/models", UMA_STORE_FOLDER },
    { "/opt/models", UMA_STORE_FOLDER },
    { "/srv/models", UMA_STORE_FOLDER },
    { "/mnt/models", UMA_STORE_FOLDER },
    { "/raid/models", UMA_STORE_FOLDER },      /* DGX OS mounts its array there */
    { "/workspace/models", UMA_STORE_FOLDER }, /* NGC's containers */
    { "/opt/nim/.cache", UMA_STORE_HUB },
};

/* What a folder has that is one model's: transformers, diffusers, Meta's own releases, TensorRT-LLM. */
static const char *const marks[] = { "config.json", "model_index.json", "params.json", "model.safetensors.index.json" };

/* ---- finding ------------------------------------------------------------------------------------------------------ */

struct view {
    uint64_t mount_namespace; /* inode of /proc/PID/ns/mnt */
    int32_t pid;
    struct uma_mounts mounts;
    bool known;
};

struct finder {
    struct uma_root *root;
    struct uma_arena *arena, *scratch;
    struct uma_store *stores;
    struct file_id {
        dev_t device;
        ino_t inode;
    } * ids;
    size_t n;
    struct uma_intern seen; /* what was looked up: processes of one job name the same */
    struct view views[VIEWS_MAX];
    size_t n_views;
    struct uma_text path, real;
};

static void finder_done(struct finder *f) {
    (void)uma_arena_free(f->scratch);
    free(f->ids);
    free(f->stores);
    uma_intern_done(&f->seen);
    uma_text_done(&f->path);
    uma_text_done(&f->real);
}
#define _cleanup_finder_ _cleanup_(finder_done)

/* What a variable, an argument or a link may lead to by mistake or on purpose, and what takes minutes to walk through: folders of the system itself. */
static bool is_system_folder(const char *path) {
    static const char *const folders[] = { "/",    "/bin",  "/boot", "/dev", "/etc",  "/home", "/lib", "/lib64", "/media", "/mnt",
                                           "/opt", "/proc", "/root", "/run", "/sbin", "/srv",  "/sys", "/tmp",   "/usr",   "/var" };
    for (size_t i = 0; i < ELEMENTS(folders); i++)
        if (strcmp(path, folders[i]) == 0)
            return true;
    return false;
}

/* Read and entered by this user, or, a file, there. */
static bool usable(const char *path, const struct stat *st) {
    if (S_ISREG(st->st_mode))
        return uma_is_weight_file(path);
    return S_ISDIR(st->st_mode) && faccessat(AT_FDCWD, path, R_OK | X_OK, AT_EACCESS) == 0;
}

static int keep(struct finder *f, const char *path, enum uma_store_kind kind, const struct stat *st) {
    for (size_t i = 0; i < f->n; i++)
        if (f->ids[i].device == st->st_dev && f->ids[i].inode == st->st_ino) {
            if (f->stores[i].kind == UMA_STORE_FOLDER)
                f->stores[i].kind = kind; /* whoever knows more about it */
            return 0;
        }
    if (f->n == UMA_STORES_MAX)
        return 0;
    const char *copy = uma_arena_strndup(f->arena, path, strlen(path));
    if (!copy)
        return -ENOMEM;
    f->stores[f->n] = (struct uma_store){ .path = copy, .kind = kind };
    f->ids[f->n++] = (struct file_id){ st->st_dev, st->st_ino };
    return 0;
}

static int consider_own(struct finder *f, const char *path, enum uma_store_kind kind) {
    struct stat st;
    _cleanup_free_
    char *real = realpath(path, NULL);
    if (!real || stat(real, &st) < 0 || !usable(real, &st))
        return errno == ENOMEM ? -ENOMEM : 0;
    return keep(f, real, kind, &st);
}

/* Was it looked up before? Another view's path is another one. */
static bool first_time(struct finder *f, const struct view *view, const char *path) {
    char key[PATH_MAX + 16];
    int n = snprintf(key, sizeof(key), "%d:%s", view->pid, path);
    if (n < 0 || (size_t)n >= sizeof(key) || uma_intern_find(&f->seen, key, (size_t)n) >= 0)
        return false;
    const char *copy = uma_arena_strndup(f->scratch, key, (size_t)n);
    return copy && uma_intern_add(&f->seen, copy, (size_t)n, LOOKUPS_MAX) >= 0;
}

static bool is_model_folder(const char *path) {
    char mark[PATH_MAX];
    for (size_t i = 0; i < ELEMENTS(marks); i++)
        if ((size_t)snprintf(mark, sizeof(mark), "%s/%s", path, marks[i]) < sizeof(mark) &&
            faccessat(AT_FDCWD, mark, F_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    return false;
}

/* `marked`: only when it looks like one model's folder. */
static int consider(struct finder *f, const struct view *view, const char *path, enum uma_store_kind kind, bool marked) {
    struct stat st;
    char door[32] = "";
    if (path[0] != '/' || !first_time(f, view, path))
        return 0;
    if (view->pid)
        (void)snprintf(door, sizeof(door), "/proc/%d/root", view->pid);
    int r = uma_local_path(view->known ? &view->mounts : NULL, door, path, &f->real, &st);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    if (is_system_folder(f->real.data))
        return 0;
    _cleanup_text_ struct uma_text whole = { 0 };
    uma_text_append(&whole, door);
    uma_text_append(&whole, f->real.data);
    if (whole.failed)
        return -ENOMEM;
    if (!usable(whole.data, &st) || (marked && S_ISDIR(st.st_mode) && !is_model_folder(whole.data)))
        return 0;
    return keep(f, whole.data, kind, &st);
}

/* ---- environments --------------------------------------------------------------------------------------------- */

struct place {
    const struct view *view; /* NULL: this process's own environment */
    const char *value;       /* what the variable says */
    size_t length;
};

static int consider_below(struct finder *f, const struct place *place, const char *below, enum uma_store_kind kind) {
    uma_text_reset(&f->path);
    uma_text_append_n(&f->path, place->value, place->length);
    uma_text_append(&f->path, below);
    if (f->path.failed)
        return -ENOMEM;
    return place->view ? consider(f, place->view, f->path.data, kind, false) : consider_own(f, f->path.data, kind);
}

/* What the variable `name` (of `length`) with this value says about where models lie. */
static int consider_variable(struct finder *f, const char *name, size_t length, const struct place *place) {
    int r = 0;
    if (place->length == 0 || place->value[0] != '/')
        return 0;
    for (size_t i = 0; i < UMA_HUB_PLACES && r == 0; i++)
        if (strlen(uma_hub_places[i].variable) == length && memcmp(uma_hub_places[i].variable, name, length) == 0)
            r = consider_below(f, place, uma_hub_places[i].below, UMA_STORE_HUB);
    for (size_t i = 0; i < ELEMENTS(variables) && r == 0; i++)
        if (strlen(variables[i].variable) == length && memcmp(variables[i].variable, name, length) == 0)
            r = consider_below(f, place, variables[i].below, variables[i].kind);
    return r;
}

static int consider_own_environment(struct finder *f) {
    int r = 0;
    for (char **variable = environ; variable && *variable && r == 0; variable++) {
        const char *equals = strchr(*variable, '=');
        size_t length = equals ? (size_t)(equals - *variable) : 0;
        if (length == 4 && memcmp(*variable, "HOME", 4) == 0) /* the places below homes are looked up with care */
            continue;
        if (length > 0)
            r = consider_variable(f, *variable, length, &(struct place){ NULL, equals + 1, strlen(equals + 1) });
    }
    return r;
}

/* ---- processes ------------------------------------------------------------------------------------------------ */

/* The view that a process has; NULL when it is another's and cannot be looked into. */
static const struct view *view_of(struct finder *f, const struct uma_process *process) {
    char path[48];
    struct stat st;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", process->pid);
    if (stat(path, &st) < 0)
        return process->container < 0 ? &f->views[0] : NULL; /* another user's: its paths are most likely ours */
    for (size_t i = 0; i < f->n_views; i++)
        if (f->views[i].mount_namespace == st.st_ino)
            return &f->views[i];
    if (f->n_views == VIEWS_MAX)
        return NULL;
    struct view view = { .mount_namespace = st.st_ino, .pid = process->pid };
    if (uma_mounts_read(f->root, process->pid, f->scratch, &view.mounts, NULL) < 0)
        return NULL; /* without its mounts there is no telling what may be touched */
    view.known = true;
    f->views[f->n_views] = view;
    return &f->views[f->n_views++];
}

static int consider_environment(struct finder *f, const struct uma_process *process) {
    int r = 0;
    const struct view *view = NULL;
    for (uint32_t i = 0; i < process->envc && r == 0; i++) {
        const char *equals = strchr(process->env[i], '=');
        if (!equals || equals[1] != '/')
            continue;
        view = view ? view : view_of(f, process);
        if (!view)
            return 0;
        r = consider_variable(f, process->env[i], (size_t)(equals - process->env[i]),
                              &(struct place){ view, equals + 1, strlen(equals + 1) });
    }
    return r;
}

/* Options that name a folder of models, of which nothing else can be told: vLLM, llama.cpp, SGLang, Triton, MLC. */
static bool names_store(const char *option, size_t length) {
    static const char *const options[] = { "--download-dir", "--models-dir", "--model-store", "--model-repository", "--model-path",
                                           "--model",        "--model-dir",  "--cache-dir",   "--hf-cache-dir",     "--models-path" };
    for (size_t i = 0; i < ELEMENTS(options); i++)
        if (strlen(options[i]) == length && memcmp(options[i], option, length) == 0)
            return true;
    return false;
}

/* One part of a set "x-00001-of-00003.gguf" stands for all that lie beside it. */
static size_t set_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    struct uma_word stem = uma_weight_stem((struct uma_word){ slash + 1, strlen(slash + 1) });
    return uma_word_unnumber(&stem) ? (size_t)(slash - path) : 0;
}

static int consider_argument(struct finder *f, const struct view *view, const char *path, bool store) {
    char folder[PATH_MAX];
    size_t n = uma_is_weight_file(path) ? set_folder(path) : 0;
    if (n > 0 && n < sizeof(folder)) {
        (void)memcpy(folder, path, n);
        folder[n] = '\0';
        return consider(f, view, folder, UMA_STORE_FOLDER, false);
    }
    return consider(f, view, path, UMA_STORE_FOLDER, !store);
}

static int consider_command_line(struct finder *f, const struct uma_process *process) {
    const struct view *view = NULL;
    unsigned considered = 0;
    int r = 0;
    for (uint32_t i = 1; i < process->argc && r == 0 && considered < ARGUMENTS_MAX; i++) {
        const char *argument = process->argv[i], *equals = argument[0] == '-' ? strchr(argument, '=') : NULL;
        const char *path = equals ? equals + 1 : argument;
        if (path[0] != '/')
            continue;
        bool store =
            equals ? names_store(argument, (size_t)(equals - argument)) : names_store(process->argv[i - 1], strlen(process->argv[i - 1]));
        view = view ? view : view_of(f, process);
        if (!view)
            return 0;
        considered++;
        r = consider_argument(f, view, path, store);
    }
    return r;
}

static int consider_processes(struct finder *f, const struct uma_processes *processes) {
    int r = 0;
    for (size_t i = 0; processes && i < processes->n && r == 0; i++) {
        const struct uma_process *process = &processes->list[i];
        r = process->kernel_thread ? 0 : consider_environment(f, process);
        if (r == 0 && !process->kernel_thread)
            r = consider_command_line(f, process);
    }
    return r;
}

/* ---- homes ---------------------------------------------------------------------------------------------------- */

static int consider_home(struct finder *f, const char *home, size_t length) {
    struct stat st = { 0 };
    char path[PATH_MAX];
    while (length > 0 && home[length - 1] == '/')
        length--;
    if (length == 0 || length >= sizeof(path) - 64) /* "/" is no home */
        return 0;
    (void)memcpy(path, home, length);
    path[length] = '\0';
    /* Most accounts have no home that is there, or that is anybody's to enter: one look-up instead of one for each place. */
    if (!first_time(f, &f->views[0], path) || uma_local_path(f->views[0].known ? &f->views[0].mounts : NULL, "", path, &f->real, &st) < 0 ||
        !S_ISDIR(st.st_mode) || faccessat(AT_FDCWD, f->real.data, X_OK, AT_EACCESS) < 0)
        return 0;
    int r = 0;
    for (size_t i = 0; i < ELEMENTS(home_places) && r == 0; i++) {
        (void)snprintf(path + length, sizeof(path) - length, "%s", home_places[i].below);
        r = consider(f, &f->views[0], path, home_places[i].kind, false);
    }
    return r;
}

static int consider_homes(struct finder *f) {
    const char *own = getenv("HOME");
    int r = own && own[0] == '/' ? consider_home(f, own, strlen(own)) : 0;
    _cleanup_text_ struct uma_text text = { 0 };
    if (r < 0 || uma_root_read_unrecorded(f->root, "etc/passwd", PASSWD_MAX, &text, NULL) < 0)
        return r;
    unsigned homes = 0;
    for (const char *line = text.data, *end = text.data + text.length; line < end && homes < HOMES_MAX && r == 0;) {
        const char *line_end = uma_line_end(line, end), *at = line;
        for (unsigned field = 0; field < 5 && at; field++) { /* name:password:uid:gid:gecos:home:shell */
            at = memchr(at, ':', (size_t)(line_end - at));
            at = at ? at + 1 : NULL;
        }
        const char *colon = at ? memchr(at, ':', (size_t)(line_end - at)) : NULL;
        if (at && *at == '/') {
            homes++;
            r = consider_home(f, at, (size_t)((colon ? colon : line_end) - at));
        }
        line = line_end + 1;
    }
    return r;
}

/* ---- all of it ------------------------------------------------------------------------------------------------ */

static int find(struct finder *f, const struct uma_processes *processes) {
    struct stat st;
    struct view *own = &f->views[f->n_views++];
    *own = (struct view){ .mount_namespace = stat("/proc/self/ns/mnt", &st) == 0 ? st.st_ino : 0 };
    own->known = uma_mounts_read(f->root, 0, f->scratch, &own->mounts, NULL) >= 0;
    int r = consider_own_environment(f);
    if (r == 0)
        r = consider_processes(f, processes);
    if (r == 0)
        r = consider_homes(f);
    for (size_t i = 0; i < ELEMENTS(machine_places) && r == 0; i++)
        r = consider(f, own, machine_places[i].path, machine_places[i].kind, false);
    return r;
}

int uma_stores_find(struct uma_root *root, const struct uma_processes *processes, struct uma_arena *arena, size_t *ret_n,
                    struct uma_store **ret_stores, struct uma_error *err) {
    if (!uma_root_is_live(root)) {
        *ret_n = 0;
        *ret_stores = NULL;
        return 0;
    }
    _cleanup_finder_ struct finder f = { .root = root, .arena = arena };
    f.scratch = uma_arena_new(MOUNTS_BYTES_MAX);
    f.stores = calloc(UMA_STORES_MAX, sizeof(*f.stores));
    f.ids = calloc(UMA_STORES_MAX, sizeof(*f.ids));
    int r = f.scratch && f.stores && f.ids ? find(&f, processes) : -ENOMEM;
    struct uma_store *stores = r < 0 ? NULL : uma_arena_array(arena, f.n, sizeof(*stores));
    if (!stores)
        return uma_error_set(err, r < 0 ? -r : ENOMEM, "looking for model stores");
    if (f.n > 0)
        (void)memcpy(stores, f.stores, f.n * sizeof(*stores));
    *ret_n = f.n;
    *ret_stores = stores;
    return 0;
}
