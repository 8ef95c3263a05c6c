// nghttp2: HTTP/2 framing and HPACK, without I/O.
#pragma once
#include <nghttp2/nghttp2.h>
