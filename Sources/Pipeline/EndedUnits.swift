// What waits to be written back: units whose fate is known. Bounded by what a lane may hold, since nothing new is
// claimed while they wait.

import Reactor

/// The units between send and settle; loop-confined.
final class EndedUnits {
    /// Raised when a unit has come in.
    let signal: LoopSignal
    private(set) var units: [UnitInWork] = []
    /// Devices of the waiting units.
    private(set) var devices = 0

    init(loop: EventLoop) { signal = LoopSignal(loop: loop) }

    func add(_ unit: UnitInWork) {
        units.append(unit)
        devices += unit.count
        signal.raise()
    }

    /// Takes the oldest units, at most `limit`.
    func take(_ limit: Int) -> [UnitInWork] {
        let taken = Array(units.prefix(limit))
        units.removeFirst(taken.count)
        devices -= taken.reduce(0) { $0 + $1.count }
        return taken
    }
}
