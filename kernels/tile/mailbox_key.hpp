// The keys of launches whose blocks share device memory: see mailboxes.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn::tile {

using MailboxKey = unsigned long long;

// For a launch that writes to `output`. Launches on the same output that overlap, which is a mistake of the caller,
// still have keys of their own unless a graph repeats them.
MailboxKey mailbox_key(const void* output);

}  // namespace gpudnn::tile
