// What the kernel refused, with its errno.

import CLinux

/// A failed system call.
package struct ReactorError: Error, Sendable, CustomStringConvertible {
    /// The call that failed, for example `epoll_ctl`.
    package let call: String
    /// The kernel's error number.
    package let errno: Int32

    /// Records a call and its errno.
    package init(call: String, errno: Int32) {
        self.call = call
        self.errno = errno
    }

    /// The call and the kernel's text, for example `connect: Connection refused`.
    package var description: String { "\(call): \(ReactorError.text(errno))" }

    /// The kernel's text for an error number.
    package static func text(_ number: Int32) -> String {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
            guard let text = buffer.baseAddress, unsafe strerror_r(number, text, buffer.count) == 0
            else { return "error \(number)" }
            return unsafe String(cString: text)
        }
    }

    /// The error of the call that has just failed on this thread.
    package static func last(_ call: String) -> ReactorError { ReactorError(call: call, errno: currentErrno()) }
}

/// This thread's errno.
func currentErrno() -> Int32 { unsafe __errno_location().pointee }
