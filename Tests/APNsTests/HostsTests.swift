// Endpoints: Apple's own, and others from the environment.

import APNs
import PushModel
import Testing

@Suite struct HostsTests {
    @Test func defaults() throws {
        let hosts = try APNsHosts([:])
        #expect(hosts == APNsHosts())
        #expect(hosts[.production].description == "https://api.push.apple.com:443")
        #expect(hosts[.sandbox].description == "https://api.sandbox.push.apple.com:443")
        #expect(hosts.management(.production).description == "https://api-manage-broadcast.push.apple.com:2196")
        #expect(hosts.management(.sandbox).description == "https://api-manage-broadcast.sandbox.push.apple.com:2195")
    }

    @Test func overrides() throws {
        let hosts = try APNsHosts([
            "APNS_PRODUCTION_URL": "https://127.0.0.1:8443", "APNS_SANDBOX_URL": " HTTPS://Proxy.Example:2197/\n",
            "APNS_MANAGE_URL": "https://m.example",
        ])
        #expect(hosts[.production] == APNsEndpoint(host: "127.0.0.1", port: 8443))
        #expect(hosts[.sandbox] == APNsEndpoint(host: "proxy.example", port: 2197))
        #expect(hosts.management(.production) == APNsEndpoint(host: "m.example"))
        #expect(hosts.management(.sandbox) == APNsEndpoint(host: "m.example"))
        #expect(try APNsHosts(["APNS_SANDBOX_URL": ""]) == APNsHosts())
    }

    @Test func addresses() throws {
        let endpoint = try APNsEndpoint("https://[::1]:8443", named: "X")
        #expect(endpoint == APNsEndpoint(host: "::1", port: 8443))
        #expect(endpoint.description == "https://[::1]:8443")
        #expect(try APNsEndpoint("https://[fe80::1]", named: "X").port == 443)
    }

    @Test(arguments: [
        ("localhost:8443", "does not say https://"), ("api.push.apple.com", "does not say https://"),
        ("http://localhost:8443", "begins with http://, but only TLS"), ("ftp://x", "begins with ftp://"),
        ("https://", "no host name"), ("https://:443", "no host name"), ("https://a b:1", "no host name"),
        ("https://user:pass@host:1", "has a user name or password"), ("https://host:1/3/device", "has a path"),
        ("https://host:1?x=1", "has a path"), ("https://host:", "has no port after the colon"),
        ("https://host:0", "has the port \"0\""), ("https://host:65536", "has the port \"65536\""),
        ("https://host:+1", "has the port \"+1\""), ("https://host:1:2", "has the port"),
        ("https://[::1", "no ]"), ("https://[::1]8443", "malformed address"), ("https://[zz]:1", "malformed address"),
        ("https://host:８443", "has the port"), ("", "does not say https://"),
    ])
    func mistakes(_ text: String, _ words: String) {
        do {
            let endpoint = try APNsEndpoint(text, named: "APNS_SANDBOX_URL")
            Issue.record("accepted as \(endpoint)")
        } catch {
            #expect(error.code == .malformed)
            #expect(error.description.hasPrefix("APNS_SANDBOX_URL "))
            #expect(error.description.contains(words))
            #expect(error.description.hasSuffix("write it as https://host:port"))
            #expect(!error.description.contains("user:"))
            #expect(!error.description.contains("\n"))
        }
    }
}
