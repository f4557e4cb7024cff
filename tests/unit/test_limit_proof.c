/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "job/limit_proof.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT "54358159-2ca0-4ce1-b9dd-b5b33c5eb578"
#define GOOD "umactl.driver-limit/1\nboot " BOOT "\ndriver 615.10\nstate holds\n"

static int parse(const char *text, struct uma_limit_proof *proof) {
    return uma_limit_proof_parse(text, strlen(text), proof, NULL);
}

static void only_what_was_written_is_read(void **state) {
    (void)state;
    struct uma_limit_proof proof = { 0 };
    assert_int_equal(parse(GOOD, &proof), 0);
    assert_true(proof.holds);
    assert_string_equal(proof.boot_id, BOOT);
    assert_string_equal(proof.driver, "615.10");
    assert_int_equal(parse("umactl.driver-limit/1\nboot x\ndriver 1\nstate does-not\n", &proof), 0);
    assert_false(proof.holds);
    static const char *const others[] = { "",
                                          "umactl.driver-limit/1\n",
                                          "umactl.driver-limit/2\nboot " BOOT "\ndriver 615.10\nstate holds\n",
                                          GOOD "x",
                                          "umactl.driver-limit/1\nboot " BOOT "\ndriver 615.10\nstate holds",
                                          "umactl.driver-limit/1\nboot \ndriver 615.10\nstate holds\n",
                                          "umactl.driver-limit/1\nboot a b\ndriver 615.10\nstate holds\n",
                                          "umactl.driver-limit/1\ndriver 615.10\nboot " BOOT "\nstate holds\n",
                                          "umactl.driver-limit/1\nboot " BOOT BOOT "\ndriver 615.10\nstate holds\n",
                                          "umactl.driver-limit/1\nboot " BOOT "\ndriver 615\x1b\nstate holds\n" };
    (void)strcpy(proof.driver, "untouched");
    for (size_t i = 0; i < ELEMENTS(others); i++)
        assert_int_equal(parse(others[i], &proof), -EINVAL);
    assert_string_equal(proof.driver, "untouched");
}

static void it_is_about_one_boot_and_one_driver(void **state) {
    (void)state;
    struct uma_limit_proof proof;
    assert_int_equal(parse(GOOD, &proof), 0);
    assert_true(uma_limit_proof_holds(&proof, BOOT, "615.10"));
    assert_false(uma_limit_proof_holds(&proof, BOOT, "615.1"));
    assert_false(uma_limit_proof_holds(&proof, BOOT, NULL));
    assert_false(uma_limit_proof_holds(&proof, NULL, "615.10"));
    assert_false(uma_limit_proof_holds(&proof, "", "615.10"));
    assert_false(uma_limit_proof_holds(&proof, "another", "615.10"));
    proof.holds = false;
    assert_false(uma_limit_proof_holds(&proof, BOOT, "615.10"));
}

static void a_file_that_is_not_roots_alone(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_limit_proof proof = { .boot_id = BOOT, .driver = "615.10", .holds = true }, back = { 0 };
    char place[256], file[300];
    assert_int_equal(folder_new(&f), 0);
    (void)snprintf(place, sizeof(place), "%s/run", f.path);
    (void)snprintf(file, sizeof(file), "%s/driver-limit", place);
    assert_int_equal(uma_limit_proof_load(place, &back, NULL), -ENOENT);
    if (geteuid() != 0) {
        assert_int_equal(uma_limit_proof_save(place, &proof, NULL), -EPERM);
        return;
    }
    mode_t old = umask(0);
    assert_int_equal(uma_limit_proof_save(place, &proof, NULL), 0);
    (void)umask(old);
    assert_int_equal(uma_limit_proof_load(place, &back, NULL), 0);
    assert_memory_equal(&proof, &back, sizeof(proof));
    assert_int_equal(uma_limit_proof_save(place, &proof, NULL), 0);
    assert_int_equal(chmod(file, 0664), 0);
    assert_int_equal(uma_limit_proof_load(place, &back, NULL), -EPERM);
    assert_int_equal(chmod(file, 0644), 0);
    assert_int_equal(chmod(place, 0757), 0);
    assert_int_equal(uma_limit_proof_load(place, &back, NULL), -EPERM);
    assert_int_equal(uma_limit_proof_save(place, &proof, NULL), -EPERM);
    assert_int_equal(chmod(place, 0755), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0644), 0);
    assert_int_equal(uma_limit_proof_load(place, &back, NULL), -EPERM); /* and it does not wait for a writer */
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(only_what_was_written_is_read),
                                        cmocka_unit_test(it_is_about_one_boot_and_one_driver),
                                        cmocka_unit_test(a_file_that_is_not_roots_alone) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
