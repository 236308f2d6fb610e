// Package grpcfence carries a lease's fencing token over gRPC, as fence/httpfence
// does over HTTP: interceptors that stamp calls with it, and interceptors that let
// them in by a fence.
//
// The client's side, for any number of leases on one connection:
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(grpcfence.UnaryClient),
//		grpc.WithChainStreamInterceptor(grpcfence.StreamClient))
//	_, err = service.Bill(grpcfence.WithHolder(ctx, lease), request)
//	if errors.Is(grpcfence.Refused(err), fence.ErrStale) { … }
//
// The server's side:
//
//	door, err := gate.New(fences, gate.Options{})
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpcfence.UnaryServer(door, grpcfence.Options{})),
//		grpc.ChainStreamInterceptor(grpcfence.StreamServer(door, grpcfence.Options{})))
//
// Alone this promises the order of admission only; the write itself is admitted
// by the fence, with the claim from FromContext. Package gate says more.
package grpcfence
