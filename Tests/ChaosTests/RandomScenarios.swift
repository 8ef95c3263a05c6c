// Scenarios out of seeds. The short ones with the seeds below; the long form by hand:
//
//     ./deploy/test.sh chaos --seed 42 --minutes 30

import Foundation
import Testing

@Suite("Chaos by chance") struct RandomScenarios {
    @Test("short", arguments: [(1, 1 as UInt64), (3, 2), (8, 3)])
    func short(replicas: Int, seed: UInt64) async throws {
        try await Scenario.run(Plan(seed: seed, replicas: replicas, length: .seconds(30), isLong: false))
    }

    /// What the command line asked for.
    enum Wish {
        static let environment = ProcessInfo.processInfo.environment
        static let minutes = environment["PGPUSH_CHAOS_MINUTES"].flatMap(Double.init)
        static let seed = environment["PGPUSH_CHAOS_SEED"].flatMap(UInt64.init)
    }

    @Test("long", .enabled(if: Wish.minutes != nil))
    func long() async throws {
        let end = ContinuousClock.now + .seconds((Wish.minutes ?? 0) * 60)
        var seed = Wish.seed ?? UInt64.random(in: 1...999_999)
        repeat {
            try await Scenario.run(Plan(seed: seed, length: .seconds(150), isLong: true), measuresIdle: true)
            seed += 1
        } while ContinuousClock.now < end
    }
}
