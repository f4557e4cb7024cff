/* SPDX-License-Identifier: MIT */
#include "guard/sender.h"

#include <string.h>

bool uma_guard_sent_by(struct msghdr *message, uid_t user) {
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        struct ucred who;
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS || header->cmsg_len != CMSG_LEN(sizeof(who)))
            continue;
        memcpy(&who, CMSG_DATA(header), sizeof(who));
        return who.uid == 0 || who.uid == user;
    }
    return false;
}
