/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/mountinfo.h"

#include <string.h>

#define LINE(text) text, (text) + sizeof(text) - 1

static void is(struct uma_mount_field field, const char *expected) {
    assert_int_equal(field.n, strlen(expected));
    assert_memory_equal(field.s, expected, field.n);
}

static void long_form(void **state) {
    (void)state;
    struct uma_mount_line l;
    assert_true(uma_mountinfo_line(LINE("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue"), &l));
    is(l.id, "36");
    is(l.parent, "35");
    is(l.device, "98:0");
    is(l.root, "/mnt1");
    is(l.point, "/mnt2");
    is(l.flags, "rw,noatime");
    is(l.type, "ext3");
    is(l.source, "/dev/root");
    is(l.options, "rw,errors=continue");
    /* no optional fields; a source that was given as "" */
    assert_true(uma_mountinfo_line(LINE("36 35 0:9 / /mnt2 rw - tmpfs  rw"), &l));
    is(l.source, "");
    is(l.options, "rw");
    static const char *const not [] = { "", " ", "36", "36 35 98:0 /mnt1 /mnt2 rw - ext3 /dev/root",
                                        "36 35 98:0 /mnt1 /mnt2 rw ext3 /dev/root rw" };
    for (size_t i = 0; i < sizeof(not ) / sizeof(not [0]); i++)
        assert_false(uma_mountinfo_line(not [i], not [i] + strlen(not [i]), &l));
    is(l.options, "rw"); /* left alone */
}

static void short_form(void **state) {
    (void)state;
    struct uma_mount_line l;
    assert_true(uma_mounts_line(LINE("/dev/sda1 /data ext4 rw,relatime 0 0"), &l));
    is(l.source, "/dev/sda1");
    is(l.point, "/data");
    is(l.root, "/");
    is(l.type, "ext4");
    is(l.options, "rw,relatime");
    assert_true(uma_mount_field_is(l.type, "ext4"));
    assert_false(uma_mount_field_is(l.type, "ext"));
    assert_false(uma_mounts_line(LINE("/dev/sda1 /data ext4"), &l));
}

static void escapes(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "", "" },
        { "/a\\040b\\011c\\012d\\134e", "/a b\tc\nd\\e" },
        { "a\\054b\\075c", "a,b=c" },
        { "\\303\\244", "\xc3\xa4" },
        { "\\477\\08\\", "\\477\\08\\" }, /* not what the kernel writes: left as it is */
        { "\\04", "\\04" },
        { "\\000a", "\\000a" }, /* no name has a NUL */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[64];
        struct uma_mount_field field = { cases[i].in, strlen(cases[i].in) };
        assert_int_equal(uma_mount_unescape(field, out), strlen(cases[i].out));
        assert_string_equal(out, cases[i].out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_form),
        cmocka_unit_test(short_form),
        cmocka_unit_test(escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
