// What of a server's message may stand in a log.

import Testing

@testable import Postgres

@Suite("A message in a log") struct DiscretionTests {
    private func said(_ state: String, _ message: String, context: String = "", hint: String = "") -> String {
        var error = PostgresError(.server, message)
        error.sqlState = state
        error.context = context
        error.hint = hint
        return error.description
    }

    @Test("keeps what PostgreSQL says about its own objects")
    func kept() {
        #expect(
            said("42P01", "relation \"public.devices\" does not exist")
                == "server 42P01: relation \"public.devices\" does not exist")
        #expect(said("55P03", "canceling statement due to lock timeout").hasSuffix("lock timeout"))
        #expect(said("PN034", "no such \"thing\"", hint: "look").hasSuffix("no such \"thing\" (hint: look)"))
        #expect(said("53300", "sorry, too many clients already", hint: "wait").hasSuffix("already (hint: wait)"))
        #expect(PostgresError(.unreachable, "127.0.0.1: \"x y\"").description == "unreachable: 127.0.0.1: \"x y\"")
    }

    private static let quoting: [(String, String, String)] = [
        ("22P02", "invalid input syntax for type integer: \"anna\"", "invalid input syntax for type integer: …"),
        ("22P02", "invalid input syntax for type json: \"a \"b\" c\"", "invalid input syntax for type json: …"),
        ("22003", "value \"99999999999\" is out of range for type integer", "value … is out of range for type integer"),
        ("42601", "syntax error at or near \"anna\"", "syntax error at or near …"),
        ("42622", "identifier \"(\"a\",b)\" will be truncated to \"(\"a\"\"", "identifier …"),
        ("42703", "column \"anna smith\" does not exist", "column … does not exist"),
        ("42P01", "relation \"ab\"cd\" does not exist", "relation … does not exist"),
        ("42703", "column \"\(String(repeating: "ab", count: 32))\" does not exist", "column … does not exist"),
        ("22P02", "broken off \"ann", "broken off …"),
    ]

    @Test("leaves out what is quoted from rows", arguments: quoting)
    func quotes(_ state: String, _ message: String, _ expected: String) {
        #expect(said(state, message, hint: "try \"anna\"") == "server \(state): \(expected)")
    }

    @Test("leaves out what functions of others raise, and says where it was raised")
    func others() {
        let place = "PL/pgSQL function audit.check_row() line 4 at RAISE"
        let full = "\(place)\nSQL statement \"INSERT INTO x VALUES ('anna')\""
        for state in ["P0001", "AB123", "23505", "38000"] {
            let text = said(state, "no anna here", context: full, hint: "ask anna")
            #expect(text == "server \(state): a text that is not PostgreSQL's was left out; raised by \(place)")
        }
        // A context of another form may be anything.
        #expect(said("P0001", "anna", context: "anna").hasSuffix("was left out"))
        #expect(said("01000", "anna", context: "anna at RAISE").hasSuffix("was left out"))
        #expect(said("00000", "table is empty").hasSuffix("table is empty"))
    }

    @Test(
        "nothing of a password that was not encoded",
        arguments: [
            "postgresql://u:a@b/s3cret@h/d", "postgres://u:12/s3cret@h/d", "postgresql://u:a@s3cret@h/d",
            "postgresql://u:p@h/s3cret@d",
        ])
    func passwords(_ text: String) throws {
        let error = #expect(throws: PostgresError.self) {
            try PostgresConfiguration(connectionString: text, applicationName: "x")
        }
        #expect(error?.code == .configuration)
        #expect(error?.description.contains("s3cret") == false)
        let good = try PostgresConfiguration(
            connectionString: "postgresql://u%40v:p%40q@h1:1,h2:2/d?application_name=a@b", applicationName: "x")
        #expect(good.description == "host=h1:1,h2:2 dbname=d user=u@v")
    }
}
