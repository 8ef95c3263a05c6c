// Request paths. What stands in one comes from the database or the configuration and is checked again here: nothing but hex
// digits, nothing but the characters of a bundle id, so nothing can be smuggled into a path.

/// Builders of paths.
package enum APNsPath {
    private static let devicePrefix: StaticString = "/3/device/"
    /// Hex digits of the longest token that is taken; Apple names no length, today's have 64 and 160.
    package static let longestToken = 512
    /// Enough room for any device's path.
    package static let longestDevicePath = 10 + longestToken

    /// Whether these bytes may stand in a path as a device token: hex digits, an even number of them, not too many.
    package static func isToken(_ token: UnsafeRawBufferPointer) -> Bool {
        guard token.count > 0, token.count <= longestToken, token.count & 1 == 0 else { return false }
        return unsafe token.allSatisfy { HexDigit.value($0) != nil }
    }

    /// Writes `/3/device/<hex>` in lower case into `buffer`, without allocating.
    ///
    /// Returns the length, or nil when the token is empty, too long, odd in length or not hex, or the buffer too short.
    package static func writeDevice(
        token: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> Int? {
        let prefix = devicePrefix.utf8CodeUnitCount
        guard token.count > 0, token.count <= longestToken, token.count & 1 == 0 else { return nil }
        guard buffer.count >= prefix + token.count else { return nil }
        for index in 0..<token.count {
            guard let digit = unsafe HexDigit.value(token[index]) else { return nil }
            unsafe buffer[prefix + index] = HexDigit.lower(UInt64(digit))
        }
        for index in 0..<prefix { unsafe buffer[index] = devicePrefix.utf8Start[index] }
        return prefix + token.count
    }

    /// The same as text, for single pushes.
    package static func device(_ token: String) -> String? {
        var path = [UInt8](repeating: 0, count: longestDevicePath)
        var token = token
        let length = token.withUTF8 { token in
            unsafe path.withUnsafeMutableBytes { unsafe writeDevice(token: UnsafeRawBufferPointer(token), into: $0) }
        }
        return length.map { String(decoding: path.prefix($0), as: UTF8.self) }
    }

    /// Path of a push to a channel; the channel itself stands in a header.
    package static func broadcast(bundleID: String) -> String? {
        isBundleID(bundleID) ? "/4/broadcasts/apps/\(bundleID)" : nil
    }

    /// Path to make, read and delete channels.
    package static func channels(bundleID: String) -> String? {
        isBundleID(bundleID) ? "/1/apps/\(bundleID)/channels" : nil
    }

    /// Path to list channels.
    package static func allChannels(bundleID: String) -> String? {
        isBundleID(bundleID) ? "/1/apps/\(bundleID)/all-channels" : nil
    }

    private static func isBundleID(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { SettingText.isLetterOrDigit($0) || "-._".utf8.contains($0) }
    }
}
