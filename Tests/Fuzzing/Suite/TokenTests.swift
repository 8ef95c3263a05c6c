// The token normaliser is SQL, so it is fuzzed where it runs: thousands of texts at once go through PostgreSQL and come back to be
// held against the oracle. PGPUSH_FUZZ_SECONDS makes it go on for so long, from a seed that it prints; PGPUSH_FUZZ_SEED sets one.

import APNs
import Foundation
import FuzzSurfaces
import TestSupport
import Testing

@Suite("Fuzzing, device tokens in SQL") struct TokenTests {
    private let database: TestDatabase

    init() throws {
        database = try PostgresCluster.shared().createDatabase()
        try database.psql(Self.helpers)
    }

    /// `offer` does what a producer would and says what came of it; nothing stays.
    private static let helpers = """
        CREATE FUNCTION offer(t text) RETURNS TABLE (outcome text, said text) LANGUAGE plpgsql AS $$
        DECLARE
            stored text; listed text; message text; detail text; hint text; state text;
        BEGIN
            BEGIN
                INSERT INTO devices (user_id, device_token) VALUES ('u', t) RETURNING device_token INTO stored;
                INSERT INTO scheduled_notifications (device_tokens, body) VALUES (ARRAY[t, t, stored], 'x')
                RETURNING array_to_string(device_tokens, ',') INTO listed;
                RAISE SQLSTATE 'ZZ001';
            EXCEPTION
                WHEN SQLSTATE 'ZZ001' THEN outcome := stored || ' ' || listed;
                WHEN OTHERS THEN
                    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
                    outcome := state;
                    said := message || ' ' || detail || ' ' || hint;
            END;
            RETURN NEXT;
        END $$;
        CREATE FUNCTION respell(token text, other text) RETURNS text LANGUAGE plpgsql AS $$
        DECLARE
            first bigint; second bigint; result text;
        BEGIN
            first := register_device(user_id => 'u', device_token => token);
            second := register_device(user_id => 'u', device_token => other);
            result := format('%s %s %s', first = second, touch_device('u', other), unregister_device('u', other));
            DELETE FROM devices;
            RETURN result;
        END $$;
        CREATE FUNCTION texts(hex text) RETURNS TABLE (t text, place bigint) LANGUAGE sql AS $$
            SELECT convert_from(decode(h, 'hex'), 'UTF8'), place
            FROM unnest(string_to_array(hex, ',')) WITH ORDINALITY u (h, place)
        $$
        """

    @Test("what PostgreSQL makes of a text is what the oracle says")
    func differential() throws {
        let environment = ProcessInfo.processInfo.environment
        let seconds = environment["PGPUSH_FUZZ_SECONDS"].flatMap { Int($0) } ?? 0
        let random = seconds > 0 ? UInt64.random(in: 0...UInt64.max) : 20_261_130
        var seed = environment["PGPUSH_FUZZ_SEED"].flatMap { UInt64($0) } ?? random
        let deadline = ContinuousClock.now + .seconds(seconds)
        var total = 0
        repeat {
            var texts = TokenTexts(seed: seed)
            let round =
                try Corpus.inputs(.path).map { String(decoding: $0.bytes, as: UTF8.self) }
                + (0..<4000).map { _ in texts.next() }
            let found = try difference(round) ?? differenceOfSpellings(round, &texts)
            try #require(found == nil, "seed \(seed), after \(total) texts: \(found ?? "")")
            total += round.count
            seed &+= 1
        } while ContinuousClock.now < deadline
        if seconds > 0 { FileHandle.standardError.write(Data("\(total) texts, seeds up to \(seed)\n".utf8)) }
    }

    @Test("text that is not UTF-8, or holds NUL, is refused before anything looks at it")
    func brokenText() throws {
        for bytes in ["\\xff", "\\xc3", "\\xed\\xa0\\x80", "\\x00"] {
            let failure = #expect(throws: SQLFailure.self) {
                try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('u', E'ab12cd34\(bytes)')")
            }
            #expect(failure?.sqlState.hasPrefix("22") == true, "\(bytes): \(String(describing: failure))")
        }
    }

    /// Sends texts through the normaliser, and every fourth into the tables; returns the first difference.
    private func difference(_ texts: [String]) throws -> String? {
        let rows = try database.psql(
            """
            SELECT encode(convert_to(pgpush_token(t), 'UTF8'), 'hex'), pgpush_token_fault(pgpush_token(t)), o.outcome, o.said
            FROM texts('\(hex(texts))') LEFT JOIN LATERAL offer(t) o ON place % 4 = 0 ORDER BY place
            """)
        #expect(rows.count == texts.count)
        return zip(texts, rows).first { !agrees($0, $1) }.map { "\($0.debugDescription): \($1)" }
    }

    private func agrees(_ text: String, _ row: [String?]) -> Bool {
        let expected = TokenOracle.judge(text)
        if let said = row[3], reveals(said, text) { return false }
        guard let token = expected.token else {
            return row[1]?.hasPrefix(expected.fault?.rawValue ?? "?") == true && (row[2] ?? "PN015") == "PN015"
        }
        let isTaken = (row[2] ?? "\(token) \(token)") == "\(token) \(token)"
        return row[1] == nil && row[0] == hex([token]) && isTaken && APNsPath.device(token) == "/3/device/\(token)"
    }

    /// Whether a message holds more of a text than its beginning: sixteen characters of what may be a token.
    private func reveals(_ said: String, _ text: String) -> Bool {
        let text = Array(text.lowercased().filter { $0.isASCII && $0.isHexDigit })
        let said = said.lowercased()
        return stride(from: 0, through: text.count - 16, by: 4).contains { said.contains(String(text[$0..<$0 + 16])) }
    }

    /// A device is found by every spelling of its token; returns the first that does not.
    private func differenceOfSpellings(_ texts: [String], _ source: inout TokenTexts) throws -> String? {
        let tokens = texts.compactMap { TokenOracle.judge($0).token }.prefix(200)
        let others = tokens.map { source.respelled($0) }
        let rows = try database.psql(
            """
            SELECT respell(a.t, b.t) FROM texts('\(hex(tokens))') a JOIN texts('\(hex(others))') b USING (place)
            ORDER BY place
            """)
        #expect(!tokens.isEmpty && rows.count == tokens.count)
        return zip(others, rows).first { $1 != ["t t t"] }.map { "\($0.debugDescription): \($1)" }
    }

    private func hex(_ texts: some Sequence<String>) -> String {
        texts.map { text in
            text.utf8.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        }.joined(separator: ",")
    }
}
