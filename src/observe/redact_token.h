/* SPDX-License-Identifier: MIT */
/* redact_token.h - what kind of thing a word of text s[0..n) is, by its form alone. Pure. */
#pragma once

#include "observe/redact.h"

bool uma_token_number(const char *s, size_t n);
/* How much of it is an IPv4, IPv6 or MAC address that is followed by nothing, a port or a mask; 0: none. */
size_t uma_token_address(const char *s, size_t n);
bool uma_token_email(const char *s, size_t n); /* also user@host */
bool uma_token_id(const char *s, size_t n);
bool uma_token_pci(const char *s, size_t n);
bool uma_token_sensor(const char *s, size_t n);
bool uma_token_path(const char *s, size_t n);
/* Length of its known extension with the dot, 0: none. */
size_t uma_token_extension(const char *s, size_t n);
bool uma_token_public(const char *s, size_t n);
