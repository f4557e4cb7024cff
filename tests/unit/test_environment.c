/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "record/environment.h"

static void environment(void **state) {
    (void)state;
    static const char *const kept[] = { "CUDA_VISIBLE_DEVICES=0", "PYTORCH_CUDA_ALLOC_CONF=x", "WORLD_SIZE=2", "NCCL_DEBUG=INFO",
                                        "OMP_NUM_THREADS=4" };
    static const char *const left[] = { "HF_TOKEN=x", "PATH=/bin",     "VLLM_API_KEY=x",       "CUDA_",    "=",
                                        "",           "NCCL_SECRET=1", "TF_CLI_CONFIG_FILE=x", "RANKING=1" };
    for (size_t i = 0; i < ELEMENTS(kept); i++)
        assert_true(uma_environment_matters(kept[i]));
    for (size_t i = 0; i < ELEMENTS(left); i++)
        assert_false(uma_environment_matters(left[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(environment) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
