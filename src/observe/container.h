/* SPDX-License-Identifier: MIT */
/*
 * container.h - what people call a container: its name and image, from the files its runtime keeps. Those files are mostly for root and
 * hold the container's whole environment, so only the two strings are taken, and only they are put into a capture.
 * The identity itself comes from the cgroup path: uma_container_identify() in process.h.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

/* Hexadecimal, as long as an engine's id may be. Checked before an id becomes part of a path. */
bool uma_container_id_valid(const char *id, size_t length);

struct uma_container_names;
struct uma_container_names *uma_container_names_new(struct uma_root *root);
struct uma_container_names *uma_container_names_free(struct uma_container_names *names);
/* A new reading: what was learnt about containers that are still there is kept, files are read again only for others. */
void uma_container_names_begin(struct uma_container_names *names);
void uma_container_names_end(struct uma_container_names *names);
/* Fill name and image where a file says so; `cgroup_path` tells the user of a rootless one. Leaves NULL otherwise. */
void uma_container_names_fill(struct uma_container_names *names, const char *cgroup_path, struct uma_arena *arena,
                              struct uma_container *container);

/* The parsers. `ret_...` are strings in `arena`, or NULL where the file does not say. -EINVAL when it is not the JSON expected. */
int uma_docker_config_parse(const char *text, size_t length, struct uma_arena *arena, const char **ret_name, const char **ret_image);
int uma_oci_config_parse(const char *text, size_t length, struct uma_arena *arena, const char **ret_name, const char **ret_image);
int uma_podman_list_parse(const char *text, size_t length, const char *id, struct uma_arena *arena, const char **ret_name,
                          const char **ret_image);
/* Home folder of a numeric user in the text of /etc/passwd; -ENOENT. `ret_home` points into text. */
int uma_passwd_home(const char *text, size_t length, uint32_t uid, const char **ret_home, size_t *ret_length);
