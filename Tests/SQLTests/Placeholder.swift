import TestSupport
import Testing

@Suite struct ClusterTests {
    @Test func createDatabase() throws {
        let database = try PostgresCluster.shared().createDatabase()
        try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('a', '<AABB CCDD>')")
        let rows = try database.psql("SELECT device_token, NULL, E'a,\"b\"\\nc', '' FROM devices")
        #expect(rows == [["aabbccdd", nil, "a,\"b\"\nc", ""]])
        let failure = #expect(throws: SQLFailure.self) {
            try database.psql("INSERT INTO scheduled_notifications (title) VALUES ('x')")
        }
        #expect(failure?.sqlState == "PN001")
        #expect(failure?.column == "user_id")
        #expect(failure?.hint?.hasPrefix("Set exactly") == true)
        #expect(try database.number("SELECT 1") == 1)
    }
}
