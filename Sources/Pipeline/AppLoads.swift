// What a lane holds, app by app, from the claim until it is written back.

import PushModel
import PushStore

/// The loads of all apps; loop-confined.
final class AppLoads {
    private var loads: [String: AppLoad] = [:]

    subscript(app: String) -> AppLoad { loads[app] ?? AppLoad() }

    /// How many apps the lane holds something of, with `app` as if it did.
    func active(with app: String) -> Int { loads.count + (loads[app] == nil ? 1 : 0) }

    /// Devices of all apps together but those that `leaveOut` names.
    func devices(but leaveOut: (String) -> Bool) -> Int {
        loads.reduce(0) { leaveOut($1.key) ? $0 : $0 + $1.value.devices }
    }

    /// A unit goes to the wire.
    func took(_ unit: UnitInWork) { change(unit, by: unit.count) }

    /// A unit is written back, given back or given up.
    func letGo(_ unit: UnitInWork) { change(unit, by: -unit.count) }

    private func change(_ unit: UnitInWork, by count: Int) {
        var load = self[unit.work.content.app]
        if unit.work.key.batch == 0 { load.singles += count } else { load.batches += count }
        loads[unit.work.content.app] = load == AppLoad() ? nil : load
    }
}
