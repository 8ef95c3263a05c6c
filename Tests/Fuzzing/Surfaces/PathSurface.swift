// Nothing but hex digits and the characters of a bundle id gets into a request's path, and every token that the database takes does.

import APNs

enum PathSurface {
    static func examine(_ bytes: [UInt8]) throws(Finding) {
        let text = String(decoding: bytes, as: UTF8.self)
        let utf8 = Array(text.utf8)
        let isHex = utf8.allSatisfy { "0123456789abcdefABCDEF".utf8.contains($0) }
        let isToken = isHex && (1...APNsPath.longestToken).contains(utf8.count) && utf8.count % 2 == 0
        let expected = isToken ? "/3/device/" + text.lowercased() : nil
        let path = APNsPath.device(text)
        try require(path == expected, "a device's path is its token in lower case, or there is none", path ?? "none")
        if let token = TokenOracle.judge(text).token {
            try require(
                APNsPath.device(token) == "/3/device/" + token, "what the database takes fits into a path", token)
        }
        try examineBuffer(utf8, path)

        let isBundleID = !utf8.isEmpty && utf8.allSatisfy(isBundleCharacter)
        let paths = [
            (APNsPath.broadcast(bundleID: text), "/4/broadcasts/apps/\(text)"),
            (APNsPath.channels(bundleID: text), "/1/apps/\(text)/channels"),
            (APNsPath.allChannels(bundleID: text), "/1/apps/\(text)/all-channels"),
        ]
        for (path, whole) in paths {
            try require(
                path == (isBundleID ? whole : nil), "a bundle id gets into a path whole, or not", path ?? "none")
        }
    }

    /// The same into a buffer that is just long enough, and into one that is too short.
    private static func examineBuffer(_ token: [UInt8], _ path: String?) throws(Finding) {
        for room in [0, 10, token.count, token.count + 9, token.count + 10] {
            var buffer = [UInt8](repeating: 0xee, count: room)
            let length = token.withUnsafeBytes { token in
                buffer.withUnsafeMutableBytes { APNsPath.writeDevice(token: token, into: $0) }
            }
            let expected = path.map(\.utf8.count).flatMap { $0 <= room ? $0 : nil }
            try require(length == expected, "a path is written where it fits", "\(room): \(length ?? -1)")
            if let path, let length {
                try require(Array(buffer[..<length]) == Array(path.utf8), "the path in a buffer is the same", path)
            }
        }
    }

    private static func isBundleCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f: true
        default: false
        }
    }
}
