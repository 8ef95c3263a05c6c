// A scenario before it happens: everything in it comes out of one seed, so that printing the seed is enough to have it again.
//
// Three tracks of faults go on side by side, of workers, of the database and of the gateway; on each, one follows the other.

import TestSupport

/// Who works, what they are given, and what happens to them.
struct Plan: Sendable, CustomStringConvertible {
    let seed: UInt64
    let replicas: Int
    let lanes: Int
    let length: Duration
    /// How long answers take in good weather, milliseconds.
    let latency: Int
    let workload: Workload
    let tracks: [[(gap: Duration, fault: any Fault)]]

    /// Draws a plan.
    ///
    /// - Parameters:
    ///   - seed: decides everything.
    ///   - replicas: how many workers; nil: 1, 3 or 8.
    ///   - length: for how long there are faults, more or less.
    ///   - isLong: whether there are faults that last longer than a lease.
    init(seed: UInt64, replicas: Int? = nil, length: Duration, isLong: Bool) {
        var random = SeededGenerator(seed: seed)
        self.seed = seed
        self.length = length
        let count = random.pick([1, 3, 8])
        self.replicas = replicas ?? count
        lanes = random.number(1...2)
        latency = random.pick([5, 20, 100])
        workload = Workload(&random, devices: random.number(300...3000), length: length)
        let all = self.replicas
        tracks = [
            Plan.track(&random, length) { WorkerFaults.draw(&$0, replicas: all, isLong: isLong) },
            Plan.track(&random, length) { DatabaseFaults.draw(&$0, replicas: all, isLong: isLong) },
            Plan.track(&random, length) { GatewayFaults.draw(&$0) },
        ]
    }

    private static func track(
        _ random: inout SeededGenerator, _ length: Duration, _ draw: (inout SeededGenerator) -> any Fault
    ) -> [(gap: Duration, fault: any Fault)] {
        var track: [(gap: Duration, fault: any Fault)] = []
        var time = Duration.zero
        while time < length {
            let gap = random.seconds(0...8)
            let fault = draw(&random)
            track.append((gap, fault))
            time += gap + fault.lasts + .seconds(1)
        }
        return track
    }

    var description: String {
        let faults = zip(["workers", "database", "gateway"], tracks).map { name, track in
            "  \(name): " + track.map { "\($0.fault) after \($0.gap)" }.joined(separator: "; ")
        }
        return """
            seed \(seed): \(replicas) replicas of \(lanes) lanes, \(workload.devices) devices, answers after \(latency) ms, \
            faults for \(length)
            \(faults.joined(separator: "\n"))
              acts: \(workload.acts.map { "\($0.act)" }.joined(separator: "; "))
            """
    }
}
