package import HTTP2
package import PushModel
package enum APNsID { package static let length = 36; package static func write(notification: Int64, device: Int64, into: UnsafeMutableRawBufferPointer) {} }
package enum APNsResponse { package static func answer(of r: HTTP2Response) -> PushAnswer { PushAnswer(status: r.status) } }
