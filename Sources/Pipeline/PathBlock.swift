// The request paths of a unit's devices, one after the other in one block of memory. What stands in the table is checked again here:
// rows that came past the triggers (a restore without them, replication) must not put anything but hex into a path.

import APNs
import PushStore

/// `prefix + token` for each device; immutable, freed with the object.
@safe final class PathBlock {
    private let bytes: UnsafeMutableRawPointer
    private var ends: [Int] = []
    private let prefixLength: Int
    /// Devices whose stored token is none; their paths are not to be used.
    private(set) var faulty: [Int] = []

    /// Splits the joined tokens of `devices` and puts `prefix` in front of each.
    init(devices: [UnitDevices], prefix: String) {
        let prefix = Array(prefix.utf8)
        prefixLength = prefix.count
        let count = devices.reduce(0) { $0 + $1.ids.count }
        let total = devices.reduce(0) { $0 + $1.tokens.count } + count * prefix.count
        unsafe bytes = .allocate(byteCount: max(1, total), alignment: 1)
        ends.reserveCapacity(count)
        var offset = 0
        for part in devices { append(part, prefix, &offset) }
    }

    deinit { unsafe bytes.deallocate() }

    /// The path of one device; valid as long as this object.
    subscript(index: Int) -> UnsafeRawBufferPointer {
        let start = index == 0 ? 0 : ends[index - 1]
        return unsafe UnsafeRawBufferPointer(start: bytes + start, count: ends[index] - start)
    }

    /// The token of one device.
    func token(_ index: Int) -> String { unsafe String(decoding: self[index].dropFirst(prefixLength), as: UTF8.self) }

    private func append(_ part: UnitDevices, _ prefix: [UInt8], _ offset: inout Int) {
        unsafe part.tokens.withUnsafeBytes { tokens in
            var start = 0
            for id in part.ids {
                var end = start
                while end < tokens.count, unsafe tokens[end] != UInt8(ascii: " ") { end += 1 }
                // A channel has no token.
                if id != 0, unsafe !APNsPath.isToken(UnsafeRawBufferPointer(rebasing: tokens[start..<end])) {
                    faulty.append(ends.count)
                }
                unsafe (bytes + offset).copyMemory(from: prefix, byteCount: prefix.count)
                offset += prefix.count
                if let base = tokens.baseAddress, end > start {
                    unsafe (bytes + offset).copyMemory(from: base + start, byteCount: end - start)
                }
                offset += end - start
                ends.append(offset)
                start = min(end + 1, tokens.count)
            }
        }
    }
}
