// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The character device: open files, their allocations, settings and counters. */
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/xarray.h>

#include "internal.h"

struct pool_counters counters;
atomic_t fail_next;
struct uma_test_pool_settings settings = {
    .return_delay_ms = UMA_TEST_POOL_KEEP,
    .pool_orders = UMA_TEST_POOL_DRIVER_POOLS,
    .largest_order = UMA_TEST_POOL_LARGEST_ORDER,
};
module_param_named(return_delay_ms, settings.return_delay_ms, uint, 0444);
MODULE_PARM_DESC(return_delay_ms,
                 "how long freed memory stays in the page pools (ms); 4294967295: until the kernel asks for it; 0: not at all");
module_param_named(pool_orders, settings.pool_orders, uint, 0444);
MODULE_PARM_DESC(pool_orders, "bit n: blocks of 2^n pages have a pool");

struct client {
    struct list_head in_clients;
    struct pid *process; /* that opened the file */
    char name[TASK_COMM_LEN];
    struct xarray allocations;
    atomic64_t bytes;
};
static LIST_HEAD(clients); /* in the order of opening */
static DEFINE_MUTEX(clients_lock);

/* An id holds one reference, every mapping another. */
struct allocation {
    struct kref references;
    struct client *client;
    struct list_head blocks;
    u64 bytes;
    u32 flags;
    bool closing; /* its file is being closed: nobody asked for it to be freed */
};

static void allocation_end(struct kref *references) {
    struct allocation *a = container_of(references, struct allocation, references);
    bool through_pools = !(a->flags & UMA_TEST_POOL_NO_POOL) && (!a->closing || (READ_ONCE(settings.flags) & UMA_TEST_POOL_POOL_ON_CLOSE));

    blocks_give_back(&a->blocks, through_pools);
    atomic64_sub(a->bytes, &a->client->bytes);
    atomic64_sub(a->bytes, &counters.held_bytes);
    atomic64_inc(&counters.frees);
    kfree(a);
}

static void note_held(u64 bytes) {
    s64 now = atomic64_add_return(bytes, &counters.held_bytes), peak = atomic64_read(&counters.peak_bytes);

    while (now > peak && !atomic64_try_cmpxchg(&counters.peak_bytes, &peak, now))
        ;
}

static int allocate(struct client *client, const struct uma_test_pool_alloc *request, struct allocation **ret) {
    u64 pages = DIV_ROUND_UP_ULL(request->bytes, PAGE_SIZE);
    struct allocation *a;
    int r;

    if (!request->bytes || request->bytes > LLONG_MAX || request->order > UMA_TEST_POOL_LARGEST_ORDER ||
        request->flags & ~(UMA_TEST_POOL_FALL_BACK | UMA_TEST_POOL_NO_POOL))
        return -EINVAL;
    if (atomic_add_unless(&fail_next, -1, 0)) {
        atomic64_inc(&counters.refused_script);
        return -ENOMEM;
    }
    /* A driver's own small objects are ordinary kernel memory: taking them can call the OOM killer. */
    a = kzalloc(sizeof(*a), GFP_KERNEL);
    if (!a)
        return -ENOMEM;
    kref_init(&a->references);
    INIT_LIST_HEAD(&a->blocks);
    a->client = client;
    a->flags = request->flags;
    a->bytes = pages << PAGE_SHIFT;
    r = blocks_take(&a->blocks, pages, request->order, request->flags);
    if (r) {
        kfree(a);
        return r;
    }
    atomic64_add(a->bytes, &client->bytes);
    note_held(a->bytes);
    atomic64_inc(&counters.allocations);
    *ret = a;
    return 0;
}

static long ioctl_alloc(struct client *client, void __user *argument) {
    struct uma_test_pool_alloc request;
    struct allocation *a;
    u32 id;
    int r;

    if (copy_from_user(&request, argument, sizeof(request)))
        return -EFAULT;
    r = allocate(client, &request, &a);
    if (r)
        return r;
    request.got_bytes = a->bytes;
    /* the caller's memory first: once the id is in the array, another thread can free it */
    r = xa_alloc(&client->allocations, &id, NULL, XA_LIMIT(1, INT_MAX), GFP_KERNEL);
    if (!r) {
        request.id = id;
        if (copy_to_user(argument, &request, sizeof(request))) {
            xa_erase(&client->allocations, id);
            r = -EFAULT;
        } else {
            r = xa_err(xa_store(&client->allocations, id, a, GFP_KERNEL)); /* the place is reserved: this takes no memory */
        }
    }
    if (r)
        kref_put(&a->references, allocation_end);
    return r;
}

static long ioctl_free(struct client *client, const u64 __user *argument) {
    struct allocation *a;
    u64 id;

    if (copy_from_user(&id, argument, sizeof(id)))
        return -EFAULT;
    a = id && id <= INT_MAX ? xa_erase(&client->allocations, id) : NULL;
    if (!a)
        return -ENOENT;
    kref_put(&a->references, allocation_end);
    return 0;
}

static u64 bytes_of_process(struct pid *process) {
    struct client *client;
    u64 bytes = 0;

    mutex_lock(&clients_lock);
    list_for_each_entry(client, &clients, in_clients) if (client->process == process) bytes += atomic64_read(&client->bytes);
    mutex_unlock(&clients_lock);
    return bytes;
}

static long ioctl_stats(struct client *client, void __user *argument) {
    struct uma_test_pool_stats stats = {
        .file_bytes = atomic64_read(&client->bytes),
        .process_bytes = bytes_of_process(task_tgid(current)),
        .held_bytes = atomic64_read(&counters.held_bytes),
        .peak_bytes = atomic64_read(&counters.peak_bytes),
        .allocations = atomic64_read(&counters.allocations),
        .frees = atomic64_read(&counters.frees),
        .refused_script = atomic64_read(&counters.refused_script),
        .refused_floor = atomic64_read(&counters.refused_floor),
        .refused_order = atomic64_read(&counters.refused_order),
        .refused_kernel = atomic64_read(&counters.refused_kernel),
        .interrupted = atomic64_read(&counters.interrupted),
        .reused_blocks = atomic64_read(&counters.reused_blocks),
        .shrunk_blocks = atomic64_read(&counters.shrunk_blocks),
        .late_blocks = atomic64_read(&counters.late_blocks),
    };

    for (unsigned int i = 0; i < UMA_TEST_POOL_ORDERS; i++) {
        stats.pooled_blocks[i] = pools_blocks(i);
        stats.pooled_bytes += stats.pooled_blocks[i] << (PAGE_SHIFT + i);
    }
    return copy_to_user(argument, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long ioctl_get(void __user *argument) {
    struct uma_test_pool_settings now = settings;

    now.fail_next = atomic_read(&fail_next);
    return copy_to_user(argument, &now, sizeof(now)) ? -EFAULT : 0;
}

static long ioctl_set(const void __user *argument) {
    struct uma_test_pool_settings wanted;

    if (!capable(CAP_SYS_ADMIN))
        return -EPERM;
    if (copy_from_user(&wanted, argument, sizeof(wanted)))
        return -EFAULT;
    if (wanted.flags & ~(UMA_TEST_POOL_POOL_ON_CLOSE | UMA_TEST_POOL_DEAF) || wanted.largest_order > UMA_TEST_POOL_LARGEST_ORDER ||
        wanted.pool_orders >> UMA_TEST_POOL_ORDERS || wanted.fail_next > INT_MAX || wanted.microseconds_per_mib > 60 * USEC_PER_SEC)
        return -EINVAL;
    settings = wanted;
    atomic_set(&fail_next, wanted.fail_next);
    pools_settings_changed();
    return 0;
}

static long ioctl_holders(void __user *argument) {
    struct uma_test_pool_holders list;
    struct uma_test_pool_holder *rows;
    struct client *client;
    u32 count = 0;
    long r = 0;

    if (copy_from_user(&list, argument, sizeof(list)))
        return -EFAULT;
    if (list.capacity > 4096)
        return -EINVAL;
    rows = kvcalloc(max(list.capacity, 1u), sizeof(*rows), GFP_KERNEL);
    if (!rows)
        return -ENOMEM;
    mutex_lock(&clients_lock);
    list_for_each_entry(client, &clients, in_clients) {
        u64 bytes = atomic64_read(&client->bytes);

        if (!bytes)
            continue;
        if (count < list.capacity) {
            rows[count].bytes = bytes;
            rows[count].pid = pid_vnr(client->process);
            strscpy(rows[count].name, client->name, sizeof(rows[count].name));
        }
        count++;
    }
    mutex_unlock(&clients_lock);
    if (copy_to_user(u64_to_user_ptr(list.rows), rows, min(count, list.capacity) * sizeof(*rows)))
        r = -EFAULT;
    kvfree(rows);
    list.count = count;
    if (!r && copy_to_user(argument, &list, sizeof(list)))
        r = -EFAULT;
    return r;
}

static long ioctl_hang(const u64 __user *argument) {
    u64 milliseconds;

    if (copy_from_user(&milliseconds, argument, sizeof(milliseconds)))
        return -EFAULT;
    if (milliseconds > UMA_TEST_POOL_HANG_MOST)
        return -EINVAL;
    msleep(milliseconds); /* not interruptible, not killable */
    return 0;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument) {
    void __user *user = (void __user *)argument;

    switch (command) {
    case UMA_TEST_POOL_IOC_ALLOC:
        return ioctl_alloc(file->private_data, user);
    case UMA_TEST_POOL_IOC_FREE:
        return ioctl_free(file->private_data, user);
    case UMA_TEST_POOL_IOC_STATS:
        return ioctl_stats(file->private_data, user);
    case UMA_TEST_POOL_IOC_GET:
        return ioctl_get(user);
    case UMA_TEST_POOL_IOC_SET:
        return ioctl_set(user);
    case UMA_TEST_POOL_IOC_HOLDERS:
        return ioctl_holders(user);
    case UMA_TEST_POOL_IOC_HANG:
        return ioctl_hang(user);
    default:
        return -ENOTTY;
    }
}

/* ---- mappings ---- */

static void mapping_open(struct vm_area_struct *vma) {
    struct allocation *a = vma->vm_private_data;

    kref_get(&a->references);
}

static void mapping_close(struct vm_area_struct *vma) {
    struct allocation *a = vma->vm_private_data;

    kref_put(&a->references, allocation_end);
}

static const struct vm_operations_struct mapping_operations = { .open = mapping_open, .close = mapping_close };

static int device_mmap(struct file *file, struct vm_area_struct *vma) {
    struct client *client = file->private_data;
    struct allocation *a;
    int r;

    if (!(vma->vm_flags & VM_SHARED))
        return -EINVAL;
    xa_lock(&client->allocations);
    a = xa_load(&client->allocations, vma->vm_pgoff);
    if (a)
        kref_get(&a->references);
    xa_unlock(&client->allocations);
    if (!a)
        return -ENOENT;
    r = vma->vm_end - vma->vm_start > a->bytes ? -EINVAL : blocks_map(&a->blocks, vma);
    if (r) {
        kref_put(&a->references, allocation_end);
        return r;
    }
    vma->vm_private_data = a;
    vma->vm_ops = &mapping_operations;
    return 0;
}

/* ---- open files ---- */

static int device_open(struct inode *inode, struct file *file) {
    struct client *client = kzalloc(sizeof(*client), GFP_KERNEL);

    if (!client)
        return -ENOMEM;
    client->process = get_pid(task_tgid(current));
    get_task_comm(client->name, current->group_leader);
    xa_init_flags(&client->allocations, XA_FLAGS_ALLOC1);
    mutex_lock(&clients_lock);
    list_add_tail(&client->in_clients, &clients);
    mutex_unlock(&clients_lock);
    file->private_data = client;
    return 0;
}

/* The last descriptor and the last mapping are gone: nobody else knows this client. */
static int device_release(struct inode *inode, struct file *file) {
    struct client *client = file->private_data;
    struct allocation *a;
    unsigned long id;

    xa_for_each(&client->allocations, id, a) {
        a->closing = true;
        kref_put(&a->references, allocation_end);
    }
    xa_destroy(&client->allocations);
    mutex_lock(&clients_lock);
    list_del(&client->in_clients);
    mutex_unlock(&clients_lock);
    put_pid(client->process);
    kfree(client);
    return 0;
}

static const struct file_operations device_operations = {
    .owner = THIS_MODULE,
    .open = device_open,
    .release = device_release,
    .unlocked_ioctl = device_ioctl,
    .compat_ioctl = compat_ptr_ioctl,
    .mmap = device_mmap,
};
static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "uma_test_pool", .fops = &device_operations, .mode = 0666 };

static int __init module_start(void) {
    int r;

    settings.pool_orders &= (1u << UMA_TEST_POOL_ORDERS) - 1;
    r = pools_start();
    if (r)
        return r;
    r = misc_register(&device);
    if (r)
        pools_stop();
    return r;
}

static void __exit module_end(void) {
    misc_deregister(&device);
    pools_stop();
}

module_init(module_start);
module_exit(module_end);
MODULE_DESCRIPTION("Takes memory as a GPU driver of a machine with one pool does, for tests");
MODULE_LICENSE("Dual MIT/GPL");
