// expand: read the devices of leased units.

package import Postgres
import PushModel

extension QueueStore {
    /// Reads the devices of each unit, in the units' order; a unit without devices has no parts.
    ///
    /// A unit with more than `limit` devices comes back with `limit + 1` of them: it has to be split.
    package func expand(_ units: [WorkUnit], limit: Int) async throws(PostgresError) -> [[UnitDevices]] {
        var parameters = PostgresParameters()
        parameters.add(units.map(\.key.notification))
        parameters.add(units.map(\.key.batch))
        parameters.add(Int32(clamping: limit + 1))
        let result = try await run("expand", parameters)
        var devices = [[UnitDevices]](repeating: [], count: units.count)
        guard result.rows > 0 else { return devices }
        let columns = (
            unit: try result.column("unit"), environment: try result.column("environment"),
            ids: try result.column("device_ids"), tokens: try result.column("device_tokens")
        )
        for row in 0..<result.rows {
            let unit = try result.int(row, columns.unit) - 1
            guard devices.indices.contains(unit),
                let environment = PushEnvironment(rawValue: try result.string(row, columns.environment))
            else { throw PostgresError(.decoding, "expand: a row that belongs to no unit or environment") }
            guard let tokens = unsafe try result.utf8(row, columns.tokens) else { continue }
            devices[unit].append(
                UnitDevices(
                    environment: environment, ids: try result.int64Array(row, columns.ids),
                    tokens: unsafe [UInt8](tokens)))
        }
        return devices
    }
}
