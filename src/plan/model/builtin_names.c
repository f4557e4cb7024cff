/* SPDX-License-Identifier: MIT */
/* Which built-in shape a name stands for. Never a wrong model in silence: plain words have to be the same, sizes have to agree. */
#include "plan/model/builtin.h"

#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 7b -> 7e9. The word is of the form that builtin_words.c found: digits, a point, one letter. */
static double size_of(const char *word) {
    double value = 0, step = 0;
    for (; *word; word++) {
        if (*word == '.')
            step = 1;
        else if (*word >= '0' && *word <= '9') {
            value = value * 10 + (*word - '0');
            step *= 10;
        } else
            value *= *word == 't' ? 1e12 : *word == 'b' ? 1e9 : 1e6;
    }
    return step > 1 ? value / step : value;
}

static bool near(double a, double b, double within) {
    return fabs(a - b) <= within * b;
}

static bool contains(const struct uma_name_words *words, enum uma_word_kind kind, const char *word) {
    for (unsigned i = 0; i < words->count; i++)
        if (words->kind[i] == kind && strcmp(words->word[i], word) == 0)
            return true;
    return false;
}

static unsigned how_many(const struct uma_name_words *words, enum uma_word_kind kind) {
    unsigned n = 0;
    for (unsigned i = 0; i < words->count; i++)
        n += words->kind[i] == kind;
    return n;
}

static bool any(const struct uma_name_words *words, enum uma_word_kind kind) {
    return how_many(words, kind) > 0;
}

static bool all_of(const struct uma_name_words *a, const struct uma_name_words *b) {
    for (unsigned i = 0; i < a->count; i++)
        if (a->kind[i] == WORD_PLAIN && !contains(b, WORD_PLAIN, a->word[i]))
            return false;
    return true;
}

/* tinyllama and tiny-llama, gpt-oss and gptoss */
static void joined(const struct uma_name_words *words, char *buffer, size_t size) {
    size_t used = 0;
    buffer[0] = 0;
    for (unsigned i = 0; i < words->count; i++)
        if (words->kind[i] == WORD_PLAIN && used + strlen(words->word[i]) < size) {
            size_t length = strlen(words->word[i]);
            memcpy(buffer + used, words->word[i], length + 1);
            used += length;
        }
}

static bool same_plain(const struct uma_name_words *a, const struct uma_name_words *b) {
    char x[BUILTIN_NAME_MAX + 1], y[BUILTIN_NAME_MAX + 1];
    if (!any(a, WORD_PLAIN))
        return false;
    if (how_many(a, WORD_PLAIN) == how_many(b, WORD_PLAIN) && all_of(a, b) && all_of(b, a))
        return true;
    joined(a, x, sizeof x);
    joined(b, y, sizeof y);
    return strcmp(x, y) == 0;
}

/*
 * A size in the name is the candidate's nominal one ("7b"), or its parameters as people print them: within 2.5 %, which takes 69B for Llama 2's
 * 68.98 and keeps 70B from being 72.7. Without a nominal size in the candidate: 10 %.
 */
static bool size_fits(const struct uma_name_words *name, const struct uma_name_words *candidate, double params) {
    bool nominal = any(candidate, WORD_SIZE);
    for (unsigned i = 0; i < name->count; i++)
        if (name->kind[i] == WORD_SIZE && !contains(candidate, WORD_SIZE, name->word[i]) &&
            !(params > 0 && near(size_of(name->word[i]), params, nominal ? 0.025 : 0.10)))
            return false;
    return true;
}

static bool active_fits(const struct uma_name_words *name, const struct uma_name_words *candidate) {
    if (!any(name, WORD_ACTIVE) || !any(candidate, WORD_ACTIVE))
        return true;
    for (unsigned i = 0; i < name->count; i++)
        if (name->kind[i] == WORD_ACTIVE && !contains(candidate, WORD_ACTIVE, name->word[i]))
            return false;
    return true;
}

static int soft_score(const struct uma_name_words *name, const struct uma_name_words *candidate) {
    int score = 0;
    for (unsigned i = 0; i < name->count; i++)
        if (name->kind[i] == WORD_SOFT)
            score += contains(candidate, WORD_SOFT, name->word[i]) ? 3 : -1;
        else if (name->kind[i] == WORD_ACTIVE || name->kind[i] == WORD_SIZE)
            score += contains(candidate, name->kind[i], name->word[i]) ? 2 : 0;
    for (unsigned i = 0; i < candidate->count; i++)
        if (candidate->kind[i] == WORD_SOFT && !contains(name, WORD_SOFT, candidate->word[i]))
            score--;
    return score;
}

/* A candidate with a date (Mistral-Small-2409) that the name lacks: the name may mean another year's. */
static bool undated(const struct uma_name_words *name, const struct uma_name_words *candidate) {
    for (unsigned i = 0; i < candidate->count; i++)
        if (candidate->kind[i] == WORD_SOFT && strlen(candidate->word[i]) == 4 && strspn(candidate->word[i], "0123456789") == 4 &&
            !contains(name, WORD_SOFT, candidate->word[i]))
            return true;
    return false;
}

/* How well a name fits one of a line's names; < 0: it is another model. *ret_loose: the name lacks the size. */
static int match(const struct uma_name_words *name, const struct uma_name_words *candidate, double candidate_params, bool *ret_loose) {
    if (!same_plain(name, candidate) || !size_fits(name, candidate, candidate_params) || !active_fits(name, candidate))
        return -1;
    *ret_loose = !any(name, WORD_SIZE) && (any(candidate, WORD_SIZE) || undated(name, candidate));
    int score = 1000 + soft_score(name, candidate);
    return score > 0 ? score : 0;
}

/* Every name of every line in turn; false at the end. */
struct walk {
    size_t line;
    const char *rest;
    const char *name;
    size_t length;
};
static bool next_name(struct walk *walk) {
    while (!walk->rest || !*walk->rest) {
        if (walk->rest)
            walk->line++;
        if (walk->line >= uma_builtin_shape_count)
            return false;
        walk->rest = uma_builtin_shapes[walk->line].names;
    }
    walk->name = walk->rest;
    walk->length = strcspn(walk->rest, "|");
    walk->rest += walk->length + (walk->rest[walk->length] == '|');
    return true;
}

/* All names of the table, cut into words once for a search that looks at them several times. */
struct index {
    size_t count;
    struct {
        const struct uma_builtin_shape *shape;
        struct uma_name_words words;
    } names[];
};

static struct index *make_index(void) {
    struct walk walk = { 0 };
    size_t count = 0;
    while (next_name(&walk))
        count++;
    struct index *index = calloc(1, sizeof *index + count * sizeof index->names[0]);
    if (!index)
        return NULL;
    for (walk = (struct walk){ 0 }; index->count < count && next_name(&walk); index->count++) {
        index->names[index->count].shape = &uma_builtin_shapes[walk.line];
        uma_name_words(walk.name, walk.length, true, &index->names[index->count].words);
    }
    return index;
}

static bool in_any_name(const struct index *index, const char *word) {
    for (size_t i = 0; i < index->count; i++)
        if (contains(&index->names[i].words, WORD_PLAIN, word))
            return true;
    return false;
}

/* A derived model: everything of the candidate's name is in it, with the same size, and what else is there is in no built-in name. */
static int derived_score(const struct index *index, const struct uma_name_words *name, const struct uma_name_words *candidate,
                         double candidate_params) {
    int shared = 0;
    if (!any(candidate, WORD_PLAIN) || !all_of(candidate, name) || !any(name, WORD_SIZE) || !active_fits(name, candidate) ||
        !size_fits(name, candidate, candidate_params))
        return -1;
    bool unknown_before = false;
    for (unsigned i = 0; i < name->count; i++) {
        if (name->kind[i] != WORD_PLAIN)
            continue;
        if (contains(candidate, WORD_PLAIN, name->word[i])) {
            unknown_before = false;
            shared++;
            continue;
        }
        bool number = strspn(name->word[i], "0123456789.") == strlen(name->word[i]);
        if (number ? !unknown_before : in_any_name(index, name->word[i])) /* a version belongs to the word before it */
            return -1;
        unknown_before = true;
    }
    return 100 * shared + 50 + soft_score(name, candidate);
}

struct found {
    const struct uma_builtin_shape *shape;
    int score;
    bool loose, several;
};

static void offer(struct found *found, const struct uma_builtin_shape *shape, int score, bool loose) {
    if (score < 0)
        return;
    if (found->shape && (found->loose ? !loose : false)) { /* a name with its size is worth more than any without */
        *found = (struct found){ .shape = shape, .score = score };
        return;
    }
    if (found->shape && loose && !found->loose)
        return;
    if (loose && found->shape && found->shape != shape)
        found->several = true;
    if (!found->shape || score > found->score) {
        found->shape = shape;
        found->score = score;
        found->loose = loose;
    }
}

static struct found search(const struct index *index, const struct uma_name_words *name, bool derived) {
    struct found found = { 0 };
    for (size_t i = 0; i < index->count; i++) {
        const struct uma_builtin_shape *shape = index->names[i].shape;
        const struct uma_name_words *words = &index->names[i].words;
        bool loose = false;
        int score =
            derived ? derived_score(index, name, words, (double)shape->published) : match(name, words, (double)shape->published, &loose);
        offer(&found, shape, score, loose);
    }
    return found;
}

const struct uma_builtin_shape *uma_builtin_find(const char *name, struct uma_name_words *ret_words, bool *ret_derived) {
    struct uma_name_words words;
    size_t length = strlen(name);
    if (length > BUILTIN_NAME_MAX)
        return NULL;
    _cleanup_free_
    struct index *index = make_index();
    if (!index)
        return NULL;
    for (int derived = 0; derived < 2; derived++)
        for (int dot = 0; dot < 2; dot++) {
            uma_name_words(name, length, dot == 1, &words);
            struct found found = search(index, &words, derived);
            if (!found.shape || found.several)
                continue;
            *ret_words = words;
            *ret_derived = derived;
            return found.shape;
        }
    return NULL;
}

/* Plain words in common count most, then the size. */
static int likeness(const struct uma_name_words *name, const struct uma_name_words *candidate) {
    int score = 0;
    for (unsigned i = 0; i < name->count; i++)
        for (unsigned j = 0; j < candidate->count; j++)
            if (strcmp(name->word[i], candidate->word[j]) == 0)
                score += name->kind[i] == WORD_PLAIN ? 4 : name->kind[i] == WORD_SIZE ? 3 : 0;
            else if (name->kind[i] == WORD_PLAIN && candidate->kind[j] == WORD_PLAIN && strlen(name->word[i]) >= 4 &&
                     strncmp(name->word[i], candidate->word[j], 4) == 0)
                score += 2;
    return score;
}

void uma_builtin_nearest(const char *name, char *buffer, size_t size) {
    enum { NEAREST = 3 };
    struct {
        size_t line;
        const char *name;
        int length, score;
    } best[NEAREST] = { 0 };
    struct walk walk = { 0 };
    struct uma_name_words words, candidate;
    uma_name_words(name, strnlen(name, BUILTIN_NAME_MAX), true, &words);
    while (next_name(&walk)) {
        uma_name_words(walk.name, walk.length, true, &candidate);
        int score = likeness(&words, &candidate);
        unsigned at = NEAREST;
        for (unsigned i = NEAREST; i-- > 0;)
            if (score > best[i].score)
                at = i;
        bool there = false;
        for (unsigned i = 0; i < NEAREST; i++)
            there = there || (best[i].score >= score && best[i].score > 0 && best[i].line == walk.line);
        if (at == NEAREST || there)
            continue;
        unsigned last = at;
        while (last < NEAREST - 1 && best[last].line != walk.line)
            last++;
        memmove(&best[at + 1], &best[at], (last - at) * sizeof best[0]);
        best[at].line = walk.line;
        best[at].name = walk.name;
        best[at].length = (int)walk.length;
        best[at].score = score;
    }
    size_t used = 0;
    if (size)
        buffer[0] = 0;
    for (unsigned i = 0; i < NEAREST && best[i].score > 0; i++) {
        int n = snprintf(buffer + used, size - used, "%s%.*s", i ? ", " : "", best[i].length, best[i].name);
        if (n < 0 || (size_t)n >= size - used)
            return;
        used += (size_t)n;
    }
}
