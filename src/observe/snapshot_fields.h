/* SPDX-License-Identifier: MIT */
/*
 * snapshot_fields.h - the one description of what a snapshot holds. Writing it as JSON, reading it back, redacting it, and the test that
 * holds docs/snapshot-schema.md against it all walk these tables, so that none of them can forget a field or disagree about one.
 * The offsets are checked against the member's type when the tables are compiled.
 */
#pragma once

#include "uma.h"

enum uma_field_type {
    UMA_FIELD_U64,    /* struct uma_u64: number or null, with a reason */
    UMA_FIELD_I64,    /* struct uma_i64 */
    UMA_FIELD_F64,    /* struct uma_f64 */
    UMA_FIELD_UINT64, /* plain numbers */
    UMA_FIELD_INT64,
    UMA_FIELD_UINT32,
    UMA_FIELD_INT32,
    UMA_FIELD_BOOL,
    UMA_FIELD_TRUTH,     /* true, false, null */
    UMA_FIELD_WORD,      /* an enum, as its word */
    UMA_FIELD_STRING,    /* const char *, or null */
    UMA_FIELD_NAME,      /* char[16] */
    UMA_FIELD_CHARACTER, /* char as a string of one, null for 0 */
    UMA_FIELD_TIME,      /* int64_t nanoseconds: seconds with microseconds, null for 0 */
    UMA_FIELD_OBJECT,    /* a struct in place */
    UMA_FIELD_LIST,      /* size_t count and a pointer: an array of objects */
    UMA_FIELD_ARRAY,     /* uint32_t count and the structs in place: the same in JSON */
    UMA_FIELD_STRINGS,   /* uint32_t count and const char *const *: an array of strings */
    UMA_FIELD_NUMBERS,   /* uint32_t count and uint64_t in place: an array of numbers */
    UMA_FIELD_NAMED,     /* size_t count and struct uma_named_u64 *: an object of numbers */
};

/* What a string can give away, and so what becomes of it in a redacted document. Every string has one; none is 0. */
enum uma_privacy {
    UMA_PRIVACY_OPEN = 1,  /* about the kind of machine: kept */
    UMA_PRIVACY_HOST,      /* the host's name */
    UMA_PRIVACY_PATH,      /* a path or a list of parts with slashes */
    UMA_PRIVACY_TEXT,      /* a sentence that may hold any of these */
    UMA_PRIVACY_ARGUMENTS, /* a command line or environment */
    UMA_PRIVACY_PROGRAM,   /* a process's name */
    UMA_PRIVACY_UNIT,      /* a systemd unit */
    UMA_PRIVACY_CONTAINER, /* a container's id, name or pod */
    UMA_PRIVACY_IMAGE,     /* a container image */
    UMA_PRIVACY_FILE,      /* a path of a file, whose ids are of what it holds and not of a container */
    UMA_PRIVACY_MODEL,     /* a model's name */
    UMA_PRIVACY_UUID,      /* names one machine or device */
    UMA_PRIVACY_USER,      /* a number of a user */
};

struct uma_fields;

struct uma_field {
    const char *name; /* the JSON key: the member's name in uma.h */
    enum uma_field_type type;
    enum uma_privacy privacy;
    size_t offset;
    size_t count_offset;         /* of LIST, ARRAY, STRINGS, NUMBERS, NAMED */
    uint32_t max;                /* most elements; most words of WORD */
    int64_t low, high;           /* of plain numbers */
    const struct uma_fields *of; /* of OBJECT, LIST, ARRAY */
    const char *const *words;    /* of WORD */
};

struct uma_fields {
    const char *name; /* of the struct, without uma_ */
    size_t size;
    size_t n;
    const struct uma_field *list;
    bool one_line; /* in the document */
};

/* No string of a document is longer, in bytes. A command line of UMA_CMDLINE_MAX bytes that are not UTF-8 becomes four times as long. */
#define UMA_SNAPSHOT_STRING_MAX 65536
/* Strings of an environment: the list of variables that are kept (process.c) is shorter. */
#define UMA_SNAPSHOT_ENV_MAX 1024
/* A document may hold more files of the page cache than this program puts there (UMA_SNAPSHOT_CACHED_FILES): a later one may keep more. */
#define UMA_SNAPSHOT_CACHED_FILES_MAX 65536
/* The member of an object that holds the reasons of its numbers that are null or stale. */
#define UMA_SNAPSHOT_REASONS "unknown"

extern const struct uma_fields uma_snapshot_fields, uma_gpus_fields, uma_page_cache_fields;
extern const char *const uma_validity_words[UMA_VALIDITY_MAX]; /* "unsupported": one word each */
extern const char *const uma_platform_words[UMA_PLATFORM_MAX];

/* Elements of a field that has a count. */
size_t uma_field_count(const struct uma_field *field, const void *object);
/* True for the three types that carry a validity. */
static inline bool uma_field_has_validity(const struct uma_field *field) {
    return field->type <= UMA_FIELD_F64;
}
/*
 * How the document tells a number: what cannot be told as a JSON number (above 2^63-1, or not finite) is UMA_MALFORMED there.
 * For fields that have a validity.
 */
enum uma_validity uma_field_validity(const struct uma_field *field, const void *object);
