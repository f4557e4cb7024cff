/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "window/book.h"

#include <stdlib.h>
#include <string.h>

static struct window_book book;

static int empty(void **state) {
    (void)state;
    memset(&book, 0, sizeof(book));
    return 0;
}

static void add(uint64_t start, uint64_t end, uint64_t offset) {
    window_book_add(&book, (struct window_mapping){ start, end, offset, 0, 0 });
}

static void finds_what_it_holds_whole(void **state) {
    (void)state;
    add(0x10000, 0x20000, 0);
    assert_non_null(window_book_find(&book, 0x10000, 0x20000));
    assert_non_null(window_book_find(&book, 0x11000, 0x12000));
    assert_null(window_book_find(&book, 0xf000, 0x11000));
    assert_null(window_book_find(&book, 0x1f000, 0x21000));
    assert_null(window_book_find(&book, 0x11000, 0x11000)); /* nothing is in nothing */
    add(0x20000, 0x30000, 0);
    assert_null(window_book_find(&book, 0x1f000, 0x21000)); /* two mappings are not one */
}

static void forgets_a_part(void **state) {
    (void)state;
    add(0x10000, 0x20000, 0x5000);
    window_book_remove(&book, 0x14000, 0x16000);
    assert_int_equal(book.n, 2);
    assert_null(window_book_find(&book, 0x14000, 0x15000));
    assert_null(window_book_find(&book, 0x13000, 0x17000));
    assert_int_equal(window_book_find(&book, 0x10000, 0x14000)->offset, 0x5000);
    const struct window_mapping *after = window_book_find(&book, 0x16000, 0x20000);
    assert_non_null(after);
    assert_int_equal(after->start, 0x16000);
    assert_int_equal(after->offset, 0xb000); /* of the file, at the new start */
    window_book_remove(&book, 0, UINT64_MAX);
    assert_int_equal(book.n, 0);
}

static void a_new_mapping_replaces(void **state) {
    (void)state;
    add(0x10000, 0x20000, 0);
    add(0x18000, 0x28000, 0x100000);
    assert_null(window_book_find(&book, 0x10000, 0x20000));
    assert_int_equal(window_book_find(&book, 0x18000, 0x28000)->offset, 0x100000);
    add(0x50000, 0x50000, 0); /* empty: not kept */
    assert_int_equal(book.n, 2);
}

static void has_an_end(void **state) {
    (void)state;
    for (uint64_t i = 0; i < WINDOW_BOOK_MAX + 10; i++)
        add(0x100000 + i * 0x10000, 0x100000 + i * 0x10000 + 0x3000, 0);
    assert_int_equal(book.n, WINDOW_BOOK_MAX);
    window_book_remove(&book, 0x101000, 0x102000); /* no room for the second half: it is forgotten, not believed */
    assert_int_equal(book.n, WINDOW_BOOK_MAX);
    assert_non_null(window_book_find(&book, 0x100000, 0x101000));
    assert_null(window_book_find(&book, 0x101000, 0x102000));
    assert_null(window_book_find(&book, 0x102000, 0x103000));
}

/* Against one byte for each page. */
static void agrees_with_a_map_of_pages(void **state) {
    (void)state;
    enum { PAGES = 64 };
    unsigned char owner[PAGES] = { 0 };
    srand(5);
    for (int round = 1; round < 20000; round++) {
        unsigned a = (unsigned)rand() % PAGES, b = a + (unsigned)rand() % (PAGES - a) + 1;
        bool adding = rand() % 2;
        if (adding)
            add(a, b, 100 * (uint64_t)a);
        else
            window_book_remove(&book, a, b);
        memset(owner + a, adding ? round % 255 + 1 : 0, b - a);
        for (unsigned page = 0; page < PAGES; page++) {
            const struct window_mapping *m = window_book_find(&book, page, page + 1);
            assert_int_equal(m != NULL, owner[page] != 0);
            if (m) {
                assert_int_equal(owner[m->start], owner[page]);
                assert_int_equal(owner[m->end - 1], owner[page]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup(finds_what_it_holds_whole, empty),
                                        cmocka_unit_test_setup(forgets_a_part, empty),
                                        cmocka_unit_test_setup(a_new_mapping_replaces, empty), cmocka_unit_test_setup(has_an_end, empty),
                                        cmocka_unit_test_setup(agrees_with_a_map_of_pages, empty) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
