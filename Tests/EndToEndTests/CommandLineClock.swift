// A machine whose clock is wrong: the tokens are dated by the database, from the first one on.

import Foundation
import TestSupport
import Testing

@Suite("A worker whose machine's clock is wrong") struct CommandLineClock {
    @Test("signs a token that Apple accepts, at once", arguments: [-7_200, 7_200]) func firstToken(_ seconds: Int)
        async throws
    {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            let library = try wrongClock(by: seconds, in: rig.simulator.folder)
            let worker = try rig.worker("--once", more: ["LD_PRELOAD": library])
            #expect(try await worker.exitCode() == 0, "\(worker.log)")
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
            // A token by the machine's clock would have been refused first.
            let requests = try rig.simulator.journal().requests
            #expect(requests.map(\.status) == [200], "\(worker.log)")
        }
    }

    /// Makes a library that shifts the time of day of the process which loads it first; returns its path.
    private func wrongClock(by seconds: Int, in folder: String) throws -> String {
        let source = "\(folder)/clock.c"
        try """
        #define _GNU_SOURCE
        #include <time.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int clock_gettime(clockid_t clock, struct timespec *time) {
            int result = syscall(SYS_clock_gettime, clock, time);
            if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += \(seconds);
            return result;
        }
        """.write(toFile: source, atomically: true, encoding: .utf8)
        let library = "\(folder)/clock.so"
        try Subprocess.require("/usr/bin/cc", ["-shared", "-fPIC", "-o", library, source])
        return library
    }
}
