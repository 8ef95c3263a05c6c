// What the environment may say, and what is said about it when it cannot work.

import APNs
import PushModel
import TLS
import Testing

@testable import PushStore
@testable import pgpush

@Suite("Configuration") struct CommandLineConfiguration {
    @Test func aBundleWithoutApplesRootIsNamed() throws {
        let own = try TLSClientContext(trust: .pem(try CertificateIssuer().certificatePEM))
        let missing = try #require(TrustStore.missingRoot(own, APNsHosts()))
        #expect(missing.state == .warn && missing.message.contains("USERTrust RSA Certification Authority"))
        #expect(TrustStore.missingRoot(try TLSClientContext(trust: .system), APNsHosts()) == nil)
        // Who sends to another host needs what that needs.
        var hosts = APNsHosts()
        (hosts.production, hosts.sandbox) = (APNsEndpoint(host: "localhost"), APNsEndpoint(host: "127.0.0.1"))
        #expect(TrustStore.missingRoot(own, hosts) == nil)
    }

    @Test func environmentNames() throws {
        func read(_ value: String) throws -> PushEnvironment? {
            try PushSettings.defaultEnvironment(Settings(environment: ["APNS_ENVIRONMENT": value]))
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
