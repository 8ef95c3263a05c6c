// The library that gives programs another clock (Debian package `faketime`); where it lies depends on the machine.

import Foundation

/// libfaketime, to be loaded first.
package enum FakeTime {
    /// Its path.
    ///
    /// - Throws: `CommandError` when it is not installed, so that no test passes for want of it.
    package static func library() throws -> String {
        let folders = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib")) ?? []
        let paths = ([""] + folders.map { "\($0)/" }).map { "/usr/lib/\($0)faketime/libfaketime.so.1" }
        guard let path = paths.first(where: FileManager.default.fileExists(atPath:)) else {
            throw CommandError(description: "no libfaketime here: apt-get install faketime")
        }
        return path
    }
}
