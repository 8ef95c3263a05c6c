// The model explored: every state as it must be, and each mistake that is put in found.
//
// With PGPUSH_MODEL=long the larger scenes are looked at as well (two minutes).

import Foundation
import PushModel
import Testing

extension Scene: CustomTestStringConvertible {
    var testDescription: String { name }

    private static let races = Scene("races") {
        $0.hasTime = false
        $0.ends = RequestEnd.allCases
        $0.givesBack = true
        $0.isSwept = false
    }
    private static let cancelRaces = Scene("races with a cancel") {
        $0.hasTime = false
        $0.ends = RequestEnd.allCases
        $0.givesBack = true
        $0.mayCancel = true
    }
    private static let slow = Scene("slow answers and renewals") {
        $0.ends = RequestEnd.allCases
        $0.givesBack = true
        $0.isSwept = false
    }
    private static let kill = Scene("a kill and a cancel") {
        $0.mayCancel = true
        $0.faults = .crash
        $0.faultLimit = 1
    }
    private static let killAtMostOnce = Scene("a kill and a cancel, at most once") {
        $0.ends = [.accepted, .unanswered]
        $0.isAtMostOnce = true
        $0.mayCancel = true
        $0.faults = .crash
        $0.faultLimit = 1
    }
    private static let freeze = Scene("a frozen worker") {
        $0.faults = .freeze
        $0.faultLimit = 1
    }
    private static let freezeAtMostOnce = Scene("a frozen worker, at most once") {
        $0.isAtMostOnce = true
        $0.faults = .freeze
        $0.faultLimit = 1
    }
    private static let outage = Scene("an outage and a cancel") {
        $0.mayCancel = true
        $0.faults = .outage
        $0.faultLimit = 1
    }
    private static let lostAnswers = Scene("two broken connections, at most once") {
        $0.isAtMostOnce = true
        $0.faults = .disconnect
        $0.faultLimit = 2
    }

    /// What every run looks at.
    static let usual: [Scene] = [
        races, cancelRaces, slow, kill, killAtMostOnce, freeze, freezeAtMostOnce, outage, lostAnswers,
        Scene("two kills") {
            $0.faults = .crash
            $0.faultLimit = 2
        },
        Scene("a broken connection and a cancel") {
            $0.mayCancel = true
            $0.faults = .disconnect
            $0.faultLimit = 1
        },
        Scene("two outages") {
            $0.faults = .outage
            $0.faultLimit = 2
        },
    ]

    /// What takes longer.
    static let long: [Scene] = [
        Scene("two faults, no freeze") {
            $0.faults = [.crash, .disconnect, .outage]
            $0.faultLimit = 2
        },
        Scene("any fault, and a cancel") {
            $0.mayCancel = true
            $0.givesBack = true
            $0.faults = [.crash, .freeze, .disconnect, .outage]
            $0.faultLimit = 1
        },
        Scene("a kill, and answers that fail to come") {
            $0.ends = [.accepted, .unanswered]
            $0.faults = .crash
            $0.faultLimit = 1
        },
        Scene("an outage, and server faults") {
            $0.ends = [.accepted, .serverFault]
            $0.faults = .outage
            $0.faultLimit = 1
        },
        Scene("a broken connection, and server faults") {
            $0.ends = [.accepted, .serverFault]
            $0.faults = .disconnect
            $0.faultLimit = 1
        },
        Scene("slow answers and a cancel") {
            $0.ends = [.accepted, .serverFault]
            $0.givesBack = true
            $0.mayCancel = true
        },
    ]

    /// What must happen in it somewhere.
    var verbs: Set<Action.Verb> {
        var verbs: Set<Action.Verb> = [.cut, .settle, .finalise, .goOn, .commit, .start, .end]
        if hasTime { verbs.formUnion([.tick, .renew]) }
        if givesBack { verbs.formUnion([.release, .take]) }
        if mayCancel { verbs.formUnion([.cancel, .look, .sweep]) }
        if faults.contains(.crash) { verbs.formUnion([.crash, .take, .sweep, .rollBack]) }
        if faults.contains(.freeze) { verbs.formUnion([.freeze, .wake, .take]) }
        if faults.contains(.disconnect) { verbs.formUnion([.disconnect, .reconnect, .releaseLost, .sweep, .rollBack]) }
        if faults.contains(.outage) { verbs.formUnion([.outage, .restore, .reconnect, .releaseLost, .sweep]) }
        return verbs
    }

    /// A scene in which a mistake shows, and how.
    static func showing(_ mutation: Mutation) -> (Scene, Breach) {
        switch mutation {
        case .finaliseInsideSettle: (races, .none)
        case .settleWithoutFence, .settleFencedByOwnerAlone, .deadlineFromTheAnswer: (freeze, .sentWithoutLease)
        case .rescueWithoutGrace, .leaseWithoutMargin, .releaseOfWhatWasSent: (slow, .sentTwice)
        case .rescueRightAfterAnOutage:
            (
                Scene("an outage") {
                    $0.faults = .outage
                    $0.faultLimit = 1
                }, .sentTwice
            )
        case .sweepRightAfterAnOutage: (outage, .countsWrong)
        case .cancelIgnoresWhatIsOut: (cancelRaces, .finishedWhileOpen)
        case .claimWithoutLockOnTheParent: (cancelRaces, .leasedAfterCancel)
        case .nothingAfterALostClaim: (lostAnswers, .notReached)
        case .noSweep: (kill, .none)
        }
    }
}

@Suite struct QueueModelTests {
    static var isLong: Bool { ProcessInfo.processInfo.environment["PGPUSH_MODEL"] == "long" }

    /// Prints in one piece: scenes are looked at side by side.
    private func report(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

    @Test(arguments: Scene.usual + (isLong ? Scene.long : []))
    func everyStateIsAsItMustBe(_ scene: Scene) {
        var explorer = Explorer(QueueModel(scene), limit: Self.isLong ? 3_000_000 : 300_000)
        let found = explorer.run()
        report("queue model, \(scene.name): \(found.states) states, \(found.steps) steps, \(found.ends) ends")
        if let counterexample = found.counterexample {
            Issue.record("\(scene.name):\n\(counterexample.transcript)")
        }
        #expect(found.ends > 0)
        // A model in which nothing happens has no faults either.
        #expect(found.verbs.isSuperset(of: scene.verbs), "\(scene.verbs.subtracting(found.verbs))")
    }

    @Test(arguments: Mutation.allCases)
    func aMistakeIsFound(_ mutation: Mutation) throws {
        let (scene, breach) = Scene.showing(mutation)
        var explorer = Explorer(QueueModel(scene.with(mutation)))
        let counterexample = try #require(explorer.run().counterexample, "\(mutation) was not found")
        report("queue model, \(mutation):\n\(counterexample.transcript)")
        #expect(counterexample.breach == breach)
        #expect(!counterexample.path.isEmpty)
    }

    /// The fault that was met in practice: the last two batches do not see each other, and nobody finishes the notification.
    @Test func theKnownOrderingFaultIsFoundAsItWasMet() throws {
        let (scene, _) = Scene.showing(.finaliseInsideSettle)
        var explorer = Explorer(QueueModel(scene.with(.finaliseInsideSettle)))
        let end = try #require(explorer.run().counterexample?.path.last?.after)
        #expect(end.status == .sending)
        #expect(end.isQuiet && end.workerA.isAtRest && end.workerB.isAtRest)
        #expect(end.batch0.state == .done && end.batch1.state == .done)
    }

    @Test func aStateIsTheBytesThatItIs() {
        #expect(MemoryLayout<QueueState>.alignment == 1)
        #expect(MemoryLayout<QueueState>.size == MemoryLayout<QueueState>.stride)
        var state = QueueModel(Scene("one") { _ in }).start
        state.workerA.unit0.phase = .waiting
        state.batch0.owner = .workerA
        #expect(state != state.swapped)
        #expect(state == state.swapped.swapped)
        #expect(state.representative.state == state.swapped.representative.state)
    }
}
