package cm_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/verbs"
)

// A server and a client in one process: they connect, and the client leaves.
func Example() {
	left, right, err := verbs.OpenPair(verbs.Config{}, verbs.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer left.Close()
	defer right.Close()

	ready, done := make(chan netip.AddrPort), make(chan struct{})
	go serve(right, ready, done)
	call(left, <-ready)
	<-done
	// Output:
	// server: CONNECT_REQUEST from 192.0.2.1: a greeting
	// client: ADDR_RESOLVED
	// client: ROUTE_RESOLVED
	// client: ESTABLISHED: welcome
	// client: DISCONNECTED
}

// makeQP makes the queue pair of an ID.
func makeQP(d *verbs.Device, id *cm.ID) (*verbs.QP, error) {
	cq, err := d.CreateCQ(16, nil, nil)
	if err != nil {
		return nil, err
	}
	return id.CreateQP(d.AllocPD(), verbs.QPInit{
		Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
}

// serve accepts one client, and ends when it leaves.
func serve(d *verbs.Device, ready chan<- netip.AddrPort, done chan<- struct{}) {
	defer close(done)
	ch, err := cm.Open(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ch.Close()
	l, _ := ch.NewID(cm.TCP, nil)
	if err := l.Listen(netip.AddrPortFrom(d.Addr(), 7471), 8); err != nil {
		fmt.Println(err)
	}
	ready <- l.LocalAddr()
	for {
		e, err := ch.Next(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e.Type {
		case cm.ConnectRequest:
			fmt.Printf("server: %v from %v: %s\n", e.Type, e.ID.PeerAddr().Addr(), bytes.TrimRight(e.Param.PrivateData, "\x00"))
			_, err = makeQP(d, e.ID)
			if err == nil {
				err = e.ID.Accept(cm.ConnParam{PrivateData: []byte("welcome"), RNRRetry: 7})
			}
		case cm.Disconnected:
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
}

// call connects to a server, and leaves again.
func call(d *verbs.Device, server netip.AddrPort) {
	ch, err := cm.Open(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ch.Close()
	id, _ := ch.NewID(cm.TCP, nil)
	err = id.ResolveAddr(server)
	var said []string
	for over := false; err == nil && !over; {
		var e cm.Event
		if e, err = ch.Next(context.Background()); err != nil {
			break
		}
		line := fmt.Sprintf("client: %v", e.Type)
		switch e.Type {
		case cm.AddrResolved:
			err = id.ResolveRoute()
		case cm.RouteResolved:
			if _, err = makeQP(d, id); err == nil {
				err = id.Connect(cm.ConnParam{PrivateData: []byte("a greeting"), RetryCount: 7, RNRRetry: 7})
			}
		case cm.Established:
			line += fmt.Sprintf(": %s", bytes.TrimRight(e.Param.PrivateData, "\x00"))
			err = id.Disconnect()
		}
		said = append(said, line)
		over = e.Type == cm.Disconnected
	}
	for _, line := range said {
		fmt.Println(line)
	}
	if err != nil {
		fmt.Println(err)
	}
}

// Who is refused is told why, and what the program of the peer has to say.
func ExampleID_Reject() {
	left, right, err := verbs.OpenPair(verbs.Config{}, verbs.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer left.Close()
	defer right.Close()
	client, _ := cm.Open(left)
	server, _ := cm.Open(right)
	defer client.Close()
	defer server.Close()

	l, _ := server.NewID(cm.TCP, nil)
	_ = l.Listen(netip.AddrPortFrom(right.Addr(), 7471), 8)
	id, _ := client.NewID(cm.TCP, nil)
	_ = id.ResolveAddr(l.LocalAddr())
	_ = id.ResolveRoute()
	_, _ = makeQP(left, id)
	if err := id.Connect(cm.ConnParam{}); err != nil {
		fmt.Println(err)
	}
	request, _ := server.Next(context.Background())
	if err := request.ID.Reject([]byte("closed on Sundays")); err != nil {
		fmt.Println(err)
	}
	for {
		e, err := client.Next(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		if e.Type == cm.Rejected {
			fmt.Printf("%v: %v: %s\n", e.Type, e.Reason, bytes.TrimRight(e.Param.PrivateData, "\x00"))
			return
		}
	}
	// Output:
	// REJECTED: rejected by the program: closed on Sundays
}
