/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "guard/checksum.h"

#include <string.h>

/* The check value of the catalogue of parametrised CRC algorithms (CRC-32/ISO-HDLC), and those of everybody's crc32(1). */
static void known_values(void **state) {
    (void)state;
    assert_int_equal(uma_guard_checksum(0, "123456789", 9), 0xcbf43926u);
    assert_int_equal(uma_guard_checksum(0, "", 0), 0);
    assert_int_equal(uma_guard_checksum(0, "a", 1), 0xe8b7be43u);
    assert_int_equal(uma_guard_checksum(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339u);
    uint8_t zeros[32] = { 0 }, ones[32];
    memset(ones, 0xff, sizeof(ones));
    assert_int_equal(uma_guard_checksum(0, zeros, 32), 0x190a55adu);
    assert_int_equal(uma_guard_checksum(0, ones, 32), 0xff6cab0bu);
}

static void piece_by_piece(void **state) {
    (void)state;
    const char *text = "The quick brown fox jumps over the lazy dog";
    for (size_t cut = 0; cut <= 43; cut++)
        assert_int_equal(uma_guard_checksum(uma_guard_checksum(0, text, cut), text + cut, 43 - cut), 0x414fa339u);
}

/* Every change of one bit, and of up to 32 neighbouring ones, shows. */
static void changes_show(void **state) {
    (void)state;
    uint8_t data[512];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 31 + 7);
    uint32_t sum = uma_guard_checksum(0, data, sizeof(data));
    for (size_t bit = 0; bit < sizeof(data) * 8; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(uma_guard_checksum(0, data, sizeof(data)), sum);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    memset(data + 100, 0, 4);
    assert_int_not_equal(uma_guard_checksum(0, data, sizeof(data)), sum);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(known_values), cmocka_unit_test(piece_by_piece), cmocka_unit_test(changes_show) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
