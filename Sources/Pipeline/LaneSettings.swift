// What a lane is told at its start; the same for all lanes of a process.

import PushModel
import PushStore

/// Sizes and times of a lane.
struct LaneSettings: Sendable {
    /// The apps this process has credentials for.
    var apps: [ServedApp]
    /// Devices in one batch.
    var batchSize = 500
    /// Devices of a notification that is sent as a whole, and written back as a whole: as many as are answered in a moment.
    ///
    /// What is larger becomes batches, also where one is enough: they are written back in the middle.
    var wholeLimit: Int { min(64, batchSize) }
    /// How long a claim holds, and what follows from it.
    var leases = LeaseRules()
    /// When a device is tried again.
    var retry = RetryPolicy()
    /// How often the statuses of what is being sent are looked at.
    var lookInterval: Duration = .seconds(2)
    /// A result waits at most this long for others before it is written back.
    var settleTick: Duration = .milliseconds(50)
    /// How much of a batch is known and not written down, in time, while it is on the wire.
    var checkpointInterval: Duration = .seconds(1)
    /// A gateway that has not been reached for so long gets nothing reserved for it.
    var unreachableLimit: Duration = .seconds(10)
    /// How long results may still be written after the grace time; what is not written by then ends with its lease.
    var lastWord: Duration = .seconds(5)
    /// How long a request may take.
    var requestTimeout: Duration = .seconds(15)
    /// Stop when nothing is due any more.
    var once = false
}
