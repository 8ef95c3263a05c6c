// What the environment may say, and what is said about it when it cannot work.

import Testing

@testable import PushStore
@testable import pgpush

@Suite("Configuration") struct CommandLineConfiguration {
    private let good = [
        "APNS_KEY_PATH": "/keys/AuthKey.p8", "APNS_KEY_ID": "ABCDE12345", "APNS_TEAM_ID": "TEAM123456",
        "APNS_BUNDLE_ID": "com.example.app",
    ]

    private func read(_ changes: [String: String]) throws -> PushSettings {
        try PushSettings(Settings(environment: good.merging(changes) { $1 }))
    }

    private func fault(_ changes: [String: String]) -> ConfigurationError? {
        do throws(ConfigurationError) {
            _ = try PushSettings(Settings(environment: good.merging(changes) { $1 }))
            return nil
        } catch {
            return error
        }
    }

    @Test func defaults() throws {
        let settings = try read([:])
        #expect(settings.key == .file("/keys/AuthKey.p8"))
        #expect(settings.addresses.production == Endpoint(host: "api.push.apple.com", port: 443))
        #expect(settings.addresses.sandbox == Endpoint(host: "api.sandbox.push.apple.com", port: 443))
        #expect(settings.addresses.trustBundlePath == nil)
    }

    @Test(arguments: ["APNS_KEY_PATH", "APNS_KEY_ID", "APNS_TEAM_ID", "APNS_BUNDLE_ID"])
    func eachIsNeeded(_ variable: String) throws {
        // An empty variable is one that is not set.
        let error = try #require(fault([variable: ""]))
        #expect(error.variable == variable)
        #expect(error.problem.hasPrefix("is not set"))
        #expect(!error.remedy.isEmpty)
        #expect(CommandFailure(error).code == .configuration)
    }

    @Test(arguments: ["APNS_CERT_PATH", "APNS_PROXY_URL", "PGPUSH_CONFIG"])
    func nothingIsPassedOverInSilence(_ variable: String) throws {
        #expect(try #require(fault([variable: "x"])).variable == variable)
    }

    @Test func keyInTheEnvironmentIsNeverShown() throws {
        let secret = "-----BEGIN PRIVATE KEY-----SECRET"
        let settings = try read(["APNS_KEY": secret, "APNS_KEY_PATH": ""])
        #expect(settings.key == .text(secret))
        var dumped = ""
        dump(settings, to: &dumped)
        #expect(!dumped.contains("SECRET") && !"\(settings)".contains("SECRET"))
        #expect(!String(reflecting: settings.key).contains("SECRET"))
        #expect(try #require(fault(["APNS_KEY": secret])).problem == "and APNS_KEY are both set")
    }

    @Test(arguments: [
        ("https://localhost:2197", "localhost", 2197), ("https://api.push.apple.com", "api.push.apple.com", 443),
        ("HTTPS://Host:1/", "Host", 1), ("127.0.0.1:8443", "127.0.0.1", 8443), ("https://[::1]:8443", "::1", 8443),
        ("[::1]", "::1", 443),
    ])
    func addresses(_ url: String, _ host: String, _ port: Int) {
        #expect(Endpoint(url: url) == Endpoint(host: host, port: UInt16(port)))
    }

    @Test(arguments: [
        "", "http://host:80", "https://", "https://host/path", "https://user:word@host", "host:", "host:0",
        "host:65536",
        "host:12:13", "[::1", "ho st", "ftp://x",
    ])
    func addressesThatAreNone(_ url: String) {
        #expect(Endpoint(url: url) == nil)
    }

    @Test func environmentNames() throws {
        func read(_ value: String) throws -> EnvironmentChoice? {
            try EnvironmentChoice.read(Settings(environment: ["APNS_ENVIRONMENT": value]))
        }
        #expect(try read("") == nil)
        #expect(try read("production") == .production)
        #expect(try read("Development") == .sandbox)
        #expect(try read("sandbox") == .sandbox)
        #expect(throws: ConfigurationError.self) { try read("staging") }
    }

    @Test func schemaNames() throws {
        #expect(try SchemaName("push").quoted == "\"push\"")
        #expect(try SchemaName("My-Schema_2").sql("SELECT @schema@.f()") == "SELECT \"My-Schema_2\".f()")
        for bad in ["", "pg_catalog", "PG_x", "information_schema", "a\"b", "a'b", "a b", "a$b", "a;b", "a\\b"] {
            #expect(throws: SchemaNameError.self, "\(bad)") { try SchemaName(bad) }
        }
        #expect(throws: SchemaNameError.self) { try SchemaName(String(repeating: "x", count: 64)) }
    }

    @Test func schemaPrecedence() throws {
        let settings = Settings(environment: ["PGPUSH_SCHEMA": "from_environment", "DATABASE_URL": "dbname=x"])
        #expect(try DatabaseSettings(settings).schema.name == "from_environment")
        #expect(try DatabaseSettings(settings, schemaOption: "from_option").schema.name == "from_option")
        #expect(try DatabaseSettings(Settings(environment: [:])).schema.name == "public")
    }
}

@Suite("Migration scripts") struct CommandLineMigrationScripts {
    @Test func createdObjects() {
        let script = """
            CREATE TABLE devices (
            CREATE UNIQUE INDEX devices_key ON devices (id);
            CREATE OR REPLACE FUNCTION apns_id(notification_id bigint) RETURNS uuid
                CREATE TABLE inside_a_body (
            CREATE OR REPLACE TRIGGER t BEFORE INSERT ON devices
            CREATE TYPE pgpush_unit AS (
            CREATE OR REPLACE VIEW queue_health AS
            CREATE OR REPLACE FUNCTION apns_id(other text) RETURNS uuid
            """
        #expect(
            CreatedObject.all(in: script).map(\.name) == [
                "devices", "devices_key", "apns_id", "pgpush_unit", "queue_health",
            ])
        #expect(CreatedObject.all(in: script).filter { $0.kind == .function }.map(\.name) == ["apns_id"])
    }

    @Test func checksums() {
        #expect(Checksum.of("") == "cbf29ce484222325")
        #expect(Checksum.of("a") == "af63dc4c8601ec8c")
        #expect(Checksum.of("foobar") == "85944171f73967e8")
    }
}
