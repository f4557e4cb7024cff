// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Freed blocks, one pool per order. A block stays until it is used again, until the kernel asks for memory (shrinker), or until its time is over.
 * The newest block is used first and the oldest leaves first. No pool's lock is held while memory is taken: the shrinker takes the locks too.
 */
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#include "internal.h"

struct pool {
    struct mutex lock;
    struct list_head blocks; /* newest first */
    unsigned long count;
    unsigned int order;
    struct delayed_work late;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
    struct shrinker *shrinker;
#else
    struct shrinker shrinker;
    bool registered;
#endif
};
static struct pool pools[UMA_TEST_POOL_ORDERS];
static bool stopping;

static bool in_use(unsigned int order) {
    return !READ_ONCE(stopping) && READ_ONCE(settings.return_delay_ms) && (READ_ONCE(settings.pool_orders) & (1u << order));
}

/* Puts at most `most` of the oldest blocks on a list; with `due`, only those whose time is over. The pool is locked. */
static unsigned long move_oldest(struct pool *pool, struct list_head *to, unsigned long most, bool due) {
    unsigned long moved = 0, delay = msecs_to_jiffies(READ_ONCE(settings.return_delay_ms));

    while (moved < most && !list_empty(&pool->blocks)) {
        struct page *page = list_last_entry(&pool->blocks, struct page, lru);

        if (due && time_before(jiffies, page_private(page) + delay))
            break;
        list_move(&page->lru, to);
        moved++;
    }
    pool->count -= moved;
    return moved;
}

static void free_list(struct list_head *blocks, unsigned int order) {
    struct page *page, *next;

    list_for_each_entry_safe(page, next, blocks, lru) {
        list_del(&page->lru);
        set_page_private(page, 0);
        __free_pages(page, order);
        cond_resched();
    }
}

/* Gives back what is due, and comes again when the next is. */
static void give_back_late(struct work_struct *work) {
    struct pool *pool = container_of(to_delayed_work(work), struct pool, late);
    bool keep = READ_ONCE(settings.return_delay_ms) == UMA_TEST_POOL_KEEP;
    unsigned long moved, next = 0;
    LIST_HEAD(blocks);

    mutex_lock(&pool->lock);
    if (!in_use(pool->order))
        moved = move_oldest(pool, &blocks, ULONG_MAX, false);
    else
        moved = keep ? 0 : move_oldest(pool, &blocks, ULONG_MAX, true);
    if (!keep && !list_empty(&pool->blocks)) {
        struct page *page = list_last_entry(&pool->blocks, struct page, lru);
        unsigned long due = page_private(page) + msecs_to_jiffies(READ_ONCE(settings.return_delay_ms));

        next = time_after(due, jiffies) ? due - jiffies : 1;
    }
    mutex_unlock(&pool->lock);
    free_list(&blocks, pool->order);
    atomic64_add(moved, &counters.late_blocks);
    if (next)
        queue_delayed_work(system_unbound_wq, &pool->late, next);
}

struct page *pool_take(unsigned int order) {
    struct pool *pool = &pools[order];
    struct page *page;

    mutex_lock(&pool->lock);
    page = list_first_entry_or_null(&pool->blocks, struct page, lru);
    if (page) {
        list_del(&page->lru);
        pool->count--;
    }
    mutex_unlock(&pool->lock);
    if (!page)
        return NULL;
    for (unsigned int i = 0; i < 1u << order; i++)
        clear_highpage(page + i);
    atomic64_inc(&counters.reused_blocks);
    return page;
}

bool pool_put(struct page *block, unsigned int order) {
    struct pool *pool = &pools[order];
    bool put = false;

    mutex_lock(&pool->lock);
    if (in_use(order)) {
        set_page_private(block, jiffies);
        list_add(&block->lru, &pool->blocks);
        pool->count++;
        put = true;
    }
    mutex_unlock(&pool->lock);
    /* work that is queued already keeps its time: it was asked for by an older block */
    if (put && READ_ONCE(settings.return_delay_ms) != UMA_TEST_POOL_KEEP)
        queue_delayed_work(system_unbound_wq, &pool->late, msecs_to_jiffies(READ_ONCE(settings.return_delay_ms)));
    return put;
}

void pools_settings_changed(void) {
    for (unsigned int i = 0; i < UMA_TEST_POOL_ORDERS; i++)
        mod_delayed_work(system_unbound_wq, &pools[i].late, 0);
}

u64 pools_blocks(unsigned int order) {
    return READ_ONCE(pools[order].count);
}

/* ---- the kernel asks for memory; it counts in blocks, as the real driver's shrinkers do ---- */

static struct pool *pool_of(struct shrinker *shrinker) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
    return shrinker->private_data;
#else
    return container_of(shrinker, struct pool, shrinker);
#endif
}

static unsigned long shrinker_count(struct shrinker *shrinker, struct shrink_control *control) {
    unsigned long count = READ_ONCE(pool_of(shrinker)->count);

    return count && !(READ_ONCE(settings.flags) & UMA_TEST_POOL_DEAF) ? count : SHRINK_EMPTY;
}

static unsigned long shrinker_scan(struct shrinker *shrinker, struct shrink_control *control) {
    struct pool *pool = pool_of(shrinker);
    unsigned long moved;
    LIST_HEAD(blocks);

    mutex_lock(&pool->lock);
    moved = move_oldest(pool, &blocks, control->nr_to_scan, false);
    mutex_unlock(&pool->lock);
    free_list(&blocks, pool->order);
    atomic64_add(moved, &counters.shrunk_blocks);
    return moved ? moved : SHRINK_STOP;
}

static int shrinker_start(struct pool *pool) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
    struct shrinker *shrinker = shrinker_alloc(0, "uma-test-pool-order-%u", pool->order);

    if (!shrinker)
        return -ENOMEM;
    shrinker->count_objects = shrinker_count;
    shrinker->scan_objects = shrinker_scan;
    shrinker->seeks = 1;
    shrinker->private_data = pool;
    shrinker_register(shrinker);
    pool->shrinker = shrinker;
    return 0;
#else
    int r;

    pool->shrinker.count_objects = shrinker_count;
    pool->shrinker.scan_objects = shrinker_scan;
    pool->shrinker.seeks = 1;
    r = register_shrinker(&pool->shrinker, "uma-test-pool-order-%u", pool->order);
    pool->registered = r == 0;
    return r;
#endif
}

static void shrinker_end(struct pool *pool) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
    if (pool->shrinker)
        shrinker_free(pool->shrinker);
    pool->shrinker = NULL;
#else
    if (pool->registered)
        unregister_shrinker(&pool->shrinker);
    pool->registered = false;
#endif
}

int pools_start(void) {
    int r = 0;

    for (unsigned int i = 0; i < UMA_TEST_POOL_ORDERS; i++) {
        mutex_init(&pools[i].lock);
        INIT_LIST_HEAD(&pools[i].blocks);
        INIT_DELAYED_WORK(&pools[i].late, give_back_late);
        pools[i].order = i;
    }
    for (unsigned int i = 0; i < UMA_TEST_POOL_ORDERS && !r; i++)
        r = shrinker_start(&pools[i]);
    if (r)
        pools_stop();
    return r;
}

void pools_stop(void) {
    WRITE_ONCE(stopping, true);
    for (unsigned int i = 0; i < UMA_TEST_POOL_ORDERS; i++) {
        LIST_HEAD(blocks);

        shrinker_end(&pools[i]);
        cancel_delayed_work_sync(&pools[i].late);
        (void)move_oldest(&pools[i], &blocks, ULONG_MAX, false);
        free_list(&blocks, i);
    }
}
