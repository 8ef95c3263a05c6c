// What happens to workers: killed, frozen, told to end, given a wrong clock.

import Glibc
import TestSupport

extension Field {
    /// A replica by its number, from 1, whatever the number.
    func replica(_ number: Int) -> Replica { replicas[(number - 1) % replicas.count] }
}

/// SIGKILL, so many times; each time it is started again after a while.
struct Killed: Fault {
    let number: Int
    let times: Int
    let down: Duration
    let lasts = Duration.zero
    var description: String { "replica \(number) is killed \(times) times, away for \(down)" }

    func begin(on field: Field) async throws {
        for time in 1...times {
            let from = Clock.now
            await field.replica(number).kill()
            field.crashed(.killed, from: from)
            try await field.pass(down)
            try field.replica(number).start()
            // Time to claim something again.
            if time < times { try await field.pass(.seconds(2)) }
        }
    }

    func end(on field: Field) {}
}

/// SIGSTOP, then SIGCONT.
struct Frozen: Fault {
    let number: Int
    let lasts: Duration
    var description: String { "replica \(number) is frozen for \(lasts)" }

    func begin(on field: Field) {
        // It may lose its leases; what it finds out after that it cannot write down.
        if lasts > .seconds(55) { field.crashed(.frozen, from: Clock.now, to: Clock.now + lasts / .seconds(1)) }
        field.replica(number).worker?.signal(SIGSTOP)
    }

    func end(on field: Field) { field.replica(number).worker?.signal(SIGCONT) }
}

/// SIGTERM, and a new process afterwards, as in a rolling upgrade: nothing may be repeated for it.
struct Replaced: Fault {
    let number: Int
    let lasts: Duration
    var description: String { "replica \(number) ends in order and is away for \(lasts)" }

    func begin(on field: Field) async throws { try await field.replica(number).stop() }

    func end(on field: Field) throws { try field.replica(number).start() }
}

/// The machine's calendar jumps, and jumps back.
struct ClockJump: Fault {
    let number: Int
    let ahead: Int
    let lasts: Duration
    var description: String { "the clock of replica \(number) is \(ahead) s ahead for \(lasts)" }

    func begin(on field: Field) throws { try field.replica(number).setClock(ahead: ahead) }

    func end(on field: Field) throws { try field.replica(number).setClock(ahead: 0) }
}

/// Kinds of faults of workers, drawn by a scenario.
enum WorkerFaults {
    static func draw(_ random: inout SeededGenerator, replicas: Int, isLong: Bool) -> any Fault {
        let number = random.number(1...replicas)
        switch random.number(0...(isLong ? 9 : 8)) {
        case 0...2: return Killed(number: number, times: 1, down: random.seconds(0...4))
        case 3: return Killed(number: number, times: random.number(2...4), down: random.seconds(0...2))
        case 4, 5: return Replaced(number: number, lasts: random.seconds(0...4))
        case 6: return Frozen(number: number, lasts: random.seconds(2...20))
        case 7, 8: return ClockJump(number: number, ahead: random.pick([-600, 600]), lasts: random.seconds(5...15))
        default: return Frozen(number: number, lasts: random.seconds(95...125))
        }
    }
}
