// Nothing but hex reaches `:path`.

import APNs
import Testing

@Suite struct APNsPathTests {
    @Test func devices() {
        #expect(APNsPath.device("00aAff") == "/3/device/00aaff")
        let long = String(repeating: "ab", count: 256)
        #expect(APNsPath.device(long) == "/3/device/" + long)
    }

    @Test(arguments: [
        "", "a", "abc", "zz", "00 1", "../..", "ab/../cd", "00\r\n", "00\u{0}1", "{length = 32, bytes = 0x0011 }",
        "<0011>", "null", "😀", "éé", String(repeating: "a", count: 514), String(repeating: "a", count: 63),
    ])
    func F17_otherTokens(_ token: String) { #expect(APNsPath.device(token) == nil) }

    @Test func theBufferIsRespected() {
        let token = Array("00ff".utf8)
        for size in 0..<14 {
            var buffer = [UInt8](repeating: 0x2a, count: size)
            let length = token.withUnsafeBytes { token in
                buffer.withUnsafeMutableBytes { APNsPath.writeDevice(token: token, into: $0) }
            }
            #expect(length == nil)
        }
        var buffer = [UInt8](repeating: 0x2a, count: 20)
        let length = token.withUnsafeBytes { token in
            buffer.withUnsafeMutableBytes { APNsPath.writeDevice(token: token, into: $0) }
        }
        #expect(length == 14)
        #expect(String(decoding: buffer, as: UTF8.self) == "/3/device/00ff******")
    }

    @Test func apps() {
        #expect(APNsPath.broadcast(bundleID: "com.example.app-1") == "/4/broadcasts/apps/com.example.app-1")
        #expect(APNsPath.channels(bundleID: "com.example") == "/1/apps/com.example/channels")
        #expect(APNsPath.allChannels(bundleID: "com.example") == "/1/apps/com.example/all-channels")
        for bad in ["", "a/b", "a b", "a?b", "ä", "a\n"] { #expect(APNsPath.broadcast(bundleID: bad) == nil) }
    }
}
