// What is built with a sanitizer takes other amounts of memory, and cannot live under a limit of it: tests of memory are left out then.

import Foundation

/// Whether the programs under test are built with a sanitizer; `deploy/sanitize.sh` says so.
package enum Sanitizer {
    package static let isOn = ProcessInfo.processInfo.environment["PGPUSH_SANITIZER"] != nil
}
