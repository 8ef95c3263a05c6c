// Two loops over bytes that a debug build must not do byte by byte.

import Glibc

/// Whether two arrays hold the same bytes (`memcmp`).
func sameBytes(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    guard left.count == right.count else { return false }
    return unsafe left.withUnsafeBytes { a in
        unsafe right.withUnsafeBytes { b in
            guard let from = a.baseAddress, let to = b.baseAddress else { return true }
            return unsafe memcmp(from, to, a.count) == 0
        }
    }
}

/// The machine's calendar clock, nanoseconds since 1970.
func wallNanoseconds() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}
