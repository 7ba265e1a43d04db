// What grpc-go takes for what rpc.c measures: a unary call of 64 bytes there and back, over TCP on the
// loopback, between two processes. Prints microseconds of a round trip, the median of the rounds.
//
//	taskset -c CORE grpc_trip trip CORE_OF_THE_SERVER
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sort"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	rounds = 15
	trips  = 2000
)

// The bytes as they are: nothing is measured but grpc itself.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "raw" }

func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	request := new([]byte)
	if err := decode(request); err != nil {
		return nil, err
	}
	return request, nil
}

var service = grpc.ServiceDesc{
	ServiceName: "bench",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "echo", Handler: echo}},
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr())
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}))
	server.RegisterService(&service, nil)
	check(server.Serve(listener))
}

func measure(client *grpc.ClientConn) float64 {
	request := make([]byte, 64)
	begin := time.Now()
	for i := 0; i < trips; i++ {
		reply := new([]byte)
		check(client.Invoke(context.Background(), "/bench/echo", &request, reply))
	}
	return float64(time.Since(begin).Nanoseconds()) / 1e3 / trips
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		serve()
	}
	server := exec.Command("taskset", "-c", os.Args[2], os.Args[0], "serve")
	out, err := server.StdoutPipe()
	check(err)
	check(server.Start())
	var address string
	_, err = fmt.Fscanln(out, &address)
	check(err)
	client, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	check(err)
	measure(client)
	took := make([]float64, rounds)
	for i := range took {
		took[i] = measure(client)
	}
	sort.Float64s(took)
	server.Process.Kill()
	server.Wait()
	fmt.Printf("%.3f\n", took[rounds/2])
}
