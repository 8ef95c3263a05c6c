// A day in minutes: programs whose clocks all go many times as fast, by libfaketime (Debian package `faketime`). What is started
// inside `run` shares one time, whenever it is started; the test itself keeps the real one.

import Foundation

/// A clock that goes faster for the programs that a test starts.
package struct FastClock: Sendable {
    /// How many seconds pass for the programs in a real one.
    package let speed: Int
    private let origin = Date()

    @TaskLocal static var current: FastClock?

    private let library: String

    /// Runs `body`; every program that it starts has the fast clock.
    ///
    /// - Throws: what `body` throws, or that the library is not there.
    package static func run<T>(speed: Int, _ body: (FastClock) async throws -> T) async throws -> T {
        let clock = try FastClock(speed: speed)
        return try await $current.withValue(clock) { try await body(clock) }
    }

    private init(speed: Int) throws {
        self.speed = speed
        library = try FakeTime.library()
    }

    /// How long the programs have lived by their own clock.
    package var elapsed: Duration { .seconds(-origin.timeIntervalSinceNow * Double(speed)) }

    /// What a program that is started now needs: it is as far ahead as those that have been running.
    var environment: [String: String] {
        let ahead = -origin.timeIntervalSinceNow * Double(speed - 1)
        return [
            "LD_PRELOAD": library, "FAKETIME": String(format: "+%.3f x%d", ahead, speed),
            // These wait for others, and would lose patience sixty times as fast.
            "FAKETIME_SKIP_CMDS": "pg_ctl,initdb,psql,sh,cat,rm,setpriv,chown,id",
        ]
    }
}
