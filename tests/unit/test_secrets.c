/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/secrets.h"

#include <string.h>

/* Arguments are written with | here for the NUL between them. */
static void check(const char *line, const char *expected) {
    char in[512];
    size_t n = strlen(line);
    assert_true(n < sizeof(in));
    for (size_t i = 0; i <= n; i++)
        in[i] = line[i] == '|' ? '\0' : line[i];
    _cleanup_text_ struct uma_text once = { 0 }, twice = { 0 };
    uma_secrets_mask(in, n, &once);
    uma_secrets_mask(once.data ? once.data : "", once.length, &twice);
    assert_int_equal(once.length, twice.length); /* masking what is masked changes nothing */
    assert_memory_equal(once.data ? once.data : "", twice.data ? twice.data : "", once.length);
    for (size_t i = 0; i < once.length; i++)
        once.data[i] = once.data[i] == '\0' ? '|' : once.data[i];
    assert_string_equal(once.data ? once.data : "", expected);
}

static void flags(void **state) {
    (void)state;
    check("vllm|serve|m|--api-key|abc|--port|8000", "vllm|serve|m|--api-key|***|--port|8000");
    check("vllm|serve|m|--api-key|a1|b2|--port|8000", "vllm|serve|m|--api-key|***|***|--port|8000"); /* nargs="*" */
    check("vllm|--api-key=abc|x", "vllm|--api-key=***|x");
    check("x|--hf_token|hunter2|train.py", "x|--hf_token|***|train.py");
    check("x|--password=two words|y", "x|--password=***|y");
    check("x|--db-pass|-Zq9|y", "x|--db-pass|***|y");
    check("llama-server|-hft|abc", "llama-server|-hft|***");
    check("x|--use-auth-token|--model|m", "x|--use-auth-token|--model|m"); /* a flag without a value */
    check("x|--use_auth_token|-m|m", "x|--use_auth_token|-m|m");
    check("x|--APIKEY|abc", "x|--APIKEY|***");
    check("x|--aws-secret-access-key=abc", "x|--aws-secret-access-key=***");
    check("x|--api-key", "x|--api-key");
    check("x|--api-key|", "x|--api-key|");
    check("x|--api-key=", "x|--api-key=");
}

/* What the account reads from a command line must survive. */
static void engine_flags_stay(void **state) {
    (void)state;
    static const char *const lines[] = {
        "vllm|serve|org/model|--gpu-memory-utilization|0.62|--max-num-batched-tokens|8192|--tokenizer|/models/t|--max-model-len=32768",
        "python3|-m|sglang.launch_server|--mem-fraction-static|0.8|--max-total-tokens|100000|--skip-tokenizer-init|x",
        "trtllm-serve|m|--max_num_tokens|2048|--kv_cache_free_gpu_memory_fraction|0.5",
        "llama-server|-m|/m/x.gguf|-c|32768|--cache-type-k|q8_0|--n-gpu-layers|99",
        "python|train.py|--keyframes|3|--keywords=4|--num_tokens=5|--tokenize|yes",
        "hydra|trainer.max_steps=5|model.path=/m/sk-learn/hf_models",
        "x|PWD=/home/me|http://localhost:8000/v1|git@host:repo",
        "",
    };
    for (size_t i = 0; i < ELEMENTS(lines); i++)
        check(lines[i], lines[i]);
}

static void assignments_and_lines(void **state) {
    (void)state;
    check("docker|run|-e|HF_TOKEN=abc|img", "docker|run|-e|HF_TOKEN=***|img");
    check("env|--env=HF_TOKEN=abc|img", "env|--env=HF_TOKEN=***|img");
    check("sh|-c|cd /x; OPENAI_API_KEY=abc vllm serve --api-key def --port 1",
          "sh|-c|cd /x; OPENAI_API_KEY=*** vllm serve --api-key *** --port 1");
    check("title: vllm serve --api-key abc --port 1", "title: vllm serve --api-key *** --port 1");
    check("x|{\"api_key\": \"a b,c\", \"port\": 1}", "x|{\"api_key\": \"***\", \"port\": 1}");
    check("x|{'token':'abc','port':1}", "x|{'token':'***','port':1}");
    check("curl|-H|Authorization: Bearer abc def|u", "curl|-H|Authorization: ***|u");
    check("x|wandb.api_key=abc|+y=1", "x|wandb.api_key=***|+y=1");
}

static void addresses(void **state) {
    (void)state;
    check("x|postgres://me:p@ss@db:5432/x?y=1|z", "x|postgres://***@db:5432/x?y=1|z");
    check("git|clone|https://ghtok@github.com/a/b@c", "git|clone|https://***@github.com/a/b@c");
    check("x|http://host/path@2x.png", "x|http://host/path@2x.png");
    check("x|://", "x|://");
    /* a value that is masked may hold what ended the search for an address's @ */
    check("s://n-key:///u:pg&hs_@h", "s://n-key:***&hs_@h");
    check("s://n-key=\\?x;y@h", "s://n-key=\\***;y@h");
    check("s://u:***@h|s://me:p***@h", "s://***@h|s://***@h");
}

static void shapes(void **state) {
    (void)state;
    check("login|hf_AbCdEfGhIjKlMnOpQrStUvWx1234|x", "login|***|x");
    check("x|sk-proj-0123456789abcdefABCDEF|y", "x|***|y");
    check("x|AKIAIOSFODNN7EXAMPLE|y", "x|***|y");
    check("x|hf_transfer_enabled_by_default|y", "x|hf_transfer_enabled_by_default|y"); /* words, no digit */
}

/* 3 MB of the worst kinds must take time in proportion: a quadratic scan would take minutes. */
static void bounded(void **state) {
    (void)state;
    static const char *const units[] = { "://a",      "key ",       "--key ", "key=\"", "token", "a",
                                         "\"key\": ", "--api-key|", "hf_",    "=",      "@",     "://@" };
    enum { SIZE = 3 * 1000 * 1000 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    for (size_t u = 0; u < ELEMENTS(units); u++) {
        size_t n = strlen(units[u]);
        for (size_t i = 0; i < SIZE; i++)
            text[i] = units[u][i % n] == '|' ? '\0' : units[u][i % n];
        _cleanup_text_ struct uma_text out = { 0 };
        uma_secrets_mask(text, SIZE, &out);
        assert_false(out.failed);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags),  cmocka_unit_test(engine_flags_stay), cmocka_unit_test(assignments_and_lines), cmocka_unit_test(addresses),
        cmocka_unit_test(shapes), cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
