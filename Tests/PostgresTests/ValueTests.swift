// Every type goes to a real server and comes back as it was.

import Testing

@testable import Postgres

@Suite("Values on the wire") struct ValueTests {
    @Test("every single value comes back as it was, NULL too")
    func singleValues() async throws {
        let owner = PostgresUUID.random()
        try await withSession { session, _ in
            var parameters = PostgresParameters()
            parameters.add(Int64.min)
            parameters.add(Int32.max)
            parameters.add(Int16.min)
            parameters.add(true)
            parameters.add(-0.5)
            parameters.add("Grüße, 世界 👨‍👩‍👧 \" ' \\ \n")
            parameters.add("")
            parameters.add(owner)
            parameters.add(timestamp: 1_766_000_000_123_456)
            parameters.add(jsonb: #"{"a": [1, null, "ü"]}"#)
            parameters.add(json: #"{"b":  1}"#)
            parameters.add(interval: .milliseconds(-1500))
            parameters.add(bytes: [0, 255, 1])
            let types = [
                "int8", "int4", "int2", "bool", "float8", "text", "text", "uuid", "timestamptz", "jsonb", "json",
                "interval",
                "bytea",
            ]
            let list = types.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
            let result = try await session.query(
                PostgresStatement("SELECT \(list), $12 = interval '-1.5 s', encode($13, 'hex')", parameters))
            #expect(result.rows == 1 && result.columns == 15)
            #expect(try result.int64(0, 0) == .min)
            #expect(try result.int32(0, 1) == .max)
            #expect(try result.int(0, 2) == Int(Int16.min))
            #expect(try result.bool(0, 3))
            #expect(try result.double(0, 4) == -0.5)
            #expect(try result.string(0, 5) == "Grüße, 世界 👨‍👩‍👧 \" ' \\ \n")
            #expect(try result.stringIfPresent(0, 6) == "")
            #expect(try result.uuid(0, 7) == owner)
            #expect(try result.timestamp(0, 8) == 1_766_000_000_123_456)
            #expect(try result.string(0, 9) == #"{"a": [1, null, "ü"]}"#)
            #expect(try result.string(0, 10) == #"{"b":  1}"#)
            #expect(try result.bool(0, 13))
            #expect(try result.string(0, 14) == "00ff01")
        }
    }

    @Test("NULL of every type")
    func nulls() async throws {
        try await withSession { session, _ in
            var parameters = PostgresParameters()
            parameters.add(Int64?.none)
            parameters.add(Int32?.none)
            parameters.add(Int16?.none)
            parameters.add(Bool?.none)
            parameters.add(Double?.none)
            parameters.add(String?.none)
            parameters.add(PostgresUUID?.none)
            parameters.add(timestamp: nil)
            parameters.add(interval: nil)
            parameters.add(jsonb: nil)
            parameters.add(json: nil)
            parameters.add(bytes: nil)
            parameters.add([Int64]?.none)
            parameters.add([String]?.none)
            let list = (1...14).map { "$\($0)" }.joined(separator: ", ")
            let result = try await session.query(PostgresStatement("SELECT \(list)", parameters))
            for column in 0..<14 { #expect(try result.isNull(0, column)) }
            #expect(try result.int64IfPresent(0, 0) == nil)
            #expect(try result.stringIfPresent(0, 5) == nil)
            #expect(try result.bytes(0, 12) == nil)
            #expect(throws: PostgresError.self) { try result.int64(0, 0) }
            #expect(throws: PostgresError.self) { try result.string(0, 5) }
        }
    }

    @Test("arrays of every type, empty ones and such with NULLs")
    func arrays() async throws {
        let owners = [PostgresUUID.random(), PostgresUUID.random()]
        try await withSession { session, _ in
            var parameters = PostgresParameters()
            parameters.add([Int64.min, -1, 0, .max])
            parameters.add([Int32.min, .max])
            parameters.add([Int16.min, .max])
            parameters.add([true, false])
            parameters.add(["ä", "", "{,\"}", "日本"])
            parameters.add(["x", nil, "NULL"])
            parameters.add(owners)
            parameters.add(timestamps: [0, nil, 1])
            parameters.add([Int64]())
            parameters.add([String]())
            parameters.add([0.25, -1])
            parameters.add(intervals: [.seconds(61), nil])
            let list = (1...12).map { "$\($0)" }.joined(separator: ", ")
            let result = try await session.query(
                PostgresStatement(
                    "SELECT \(list), array_length($9, 1) IS NULL, ($12)[1] = '1 min 1 s', ($8)[2] IS NULL", parameters))
            #expect(try result.int64Array(0, 0) == [.min, -1, 0, .max])
            #expect(try result.int64Array(0, 1) == [Int64(Int32.min), Int64(Int32.max)])
            #expect(try result.int64Array(0, 2) == [Int64(Int16.min), Int64(Int16.max)])
            #expect(try result.boolArray(0, 3) == [true, false])
            #expect(try result.stringArray(0, 4) == ["ä", "", "{,\"}", "日本"])
            #expect(try result.optionalStringArray(0, 5) == ["x", nil, "NULL"])
            #expect(throws: PostgresError.self) { try result.stringArray(0, 5) }
            #expect(try result.uuidArray(0, 6) == owners)
            #expect(throws: PostgresError.self) { try result.timestampArray(0, 7) }
            #expect(try result.int64Array(0, 8) == [])
            #expect(try result.stringArray(0, 9) == [])
            for column in 12...14 { #expect(try result.bool(0, column)) }
        }
    }

    @Test("an array built element by element is kept between calls")
    func builder() async throws {
        try await withSession { session, _ in
            var numbers = PostgresArrayBuilder(.int8)
            var texts = PostgresArrayBuilder(.text)
            var parameters = PostgresParameters()
            for round in 1...3 {
                numbers.removeAll()
                texts.removeAll()
                for index in 0..<(round * 1000) {
                    numbers.append(Int64(index))
                    if index % 7 == 0 { texts.appendNull() } else { texts.append("t\(index)") }
                }
                parameters.removeAll()
                parameters.add(numbers)
                parameters.add(texts)
                let result = try await session.query(
                    PostgresStatement(
                        "SELECT count(*), sum(a)::int8, count(b) FROM unnest($1, $2) AS t(a, b)", parameters))
                let count = round * 1000
                #expect(try result.int(0, 0) == count)
                #expect(try result.int(0, 1) == count * (count - 1) / 2)
                #expect(try result.int(0, 2) == count - (count + 6) / 7)
            }
        }
    }

    @Test("what cannot be sent is refused before anything goes out")
    func unsendable() async throws {
        try await withSession { session, _ in
            var narrow = PostgresArrayBuilder(.int4)
            narrow.append(Int64(Int32.max) + 1)
            var wrong = PostgresArrayBuilder(.uuid)
            wrong.append("text")
            for fault in 0...1 {
                var parameters = PostgresParameters()
                if fault == 0 { parameters.add(narrow) } else { parameters.add(wrong) }
                let statement = PostgresStatement("SELECT $1", parameters)
                let error = await failure { () throws(PostgresError) in try await session.query(statement) }
                #expect(error.code == .encoding && error.outcome == .notApplied && error.statement == 0)
                #expect(error.reaction == .isolate)
            }
        }
    }

    @Test("infinite and extreme times neither trap nor wrap")
    func times() async throws {
        try await withSession { session, _ in
            let result = try await session.query(
                PostgresStatement(
                    """
                    SELECT 'infinity'::timestamptz, '-infinity'::timestamptz, '294276-12-31 UTC'::timestamptz,
                           '4713-01-01 BC UTC'::timestamptz, '1970-01-01 UTC'::timestamptz
                    """))
            #expect(try result.timestamp(0, 0) == .max)
            #expect(try result.timestamp(0, 1) == .min)
            #expect(try result.timestamp(0, 2) > 9_000_000_000_000_000_000)
            #expect(try result.timestamp(0, 3) < -200_000_000_000_000_000)
            #expect(try result.timestamp(0, 4) == 0)
            var parameters = PostgresParameters()
            parameters.add(timestamp: .max)
            parameters.add(timestamp: .min)
            let back = try await session.query(PostgresStatement("SELECT isfinite($1), isfinite($2)", parameters))
            #expect(try !back.bool(0, 0) && !back.bool(0, 1))
        }
    }

    @Test("cells outside the result, of another type or another width are errors that name the column")
    func wrongCells() async throws {
        try await withSession { session, _ in
            let result = try await session.query(
                PostgresStatement("SELECT 'secret value'::text AS token, 5::int8 AS big, ARRAY[[1,2],[3,4]] AS matrix"))
            #expect(throws: PostgresError.self) { try result.int64(1, 0) }
            #expect(throws: PostgresError.self) { try result.int64(0, 3) }
            #expect(throws: PostgresError.self) { try result.int64(-1, 0) }
            #expect(throws: PostgresError.self) { try result.bool(0, 1) }
            #expect(throws: PostgresError.self) { try result.string(0, 1) }
            #expect(throws: PostgresError.self) { try result.int64Array(0, 2) }
            #expect(throws: PostgresError.self) { try result.int64Array(0, 0) }
            let error = #expect(throws: PostgresError.self) { try result.int64(0, 0) }
            #expect(error?.code == .decoding)
            #expect(error?.description.contains("token") == true)
            #expect(error?.description.contains("secret") == false)
            #expect(try result.column("big") == 1)
            #expect(throws: PostgresError.self) { try result.column("none") }
        }
    }

    @Test("short lists of values carry their types")
    func valueLists() async throws {
        try await withSession { session, _ in
            let nothing: String? = nil
            let result = try await session.query(
                PostgresStatement(
                    "SELECT $1 + 1, $2 || 'x', $3 IS NULL, cardinality($4), pg_typeof($5)::text",
                    [Int64(1), "a", nothing, ["p", "q"], Duration.seconds(1)]))
            #expect(try result.int64(0, 0) == 2)
            #expect(try result.string(0, 1) == "ax")
            #expect(try result.bool(0, 2))
            #expect(try result.int64(0, 3) == 2)
            #expect(try result.string(0, 4) == "interval")
        }
    }

    @Test("a copy of parameters stays as it was when the original is used again")
    func copies() {
        var parameters = PostgresParameters()
        parameters.add("one")
        let copy = parameters
        parameters.removeAll()
        parameters.add("two")
        parameters.add("three")
        #expect(copy.count == 1)
        #expect(parameters.count == 2)
        #expect(copy.storage?.buffer.bytes.elementsEqual("one".utf8) == true)
    }

    @Test("UUIDs as text")
    func uuidText() {
        let text = "0123abcd-4567-89ef-0123-456789abcdef"
        #expect(PostgresUUID(text)?.description == text)
        #expect(PostgresUUID(text.uppercased())?.description == text)
        for wrong in ["", "0123abcd", text + "0", text.replacing("-", with: ""), text.replacing("a", with: "g")] {
            #expect(PostgresUUID(wrong) == nil)
        }
        #expect(PostgresUUID.random().description.split(separator: "-")[2].first == "4")
    }
}
