package egress

import (
	"net"
	"net/netip"
)

// special are the networks that are not the public internet, and why.
var special = []struct {
	net netip.Prefix
	why string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this machine"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address of a provider's own network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "an address of this machine"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the address of a metadata service"}, // of Azure, on its machines
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address, where metadata services are"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "an address that carries another one"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a reserved address"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a reserved address"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a reserved address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	// Of IPv6, what is not 2000::/3 is not public at all.
	{netip.MustParsePrefix("::1/128"), "an address of this machine"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address, where metadata services are"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "an IPv4 address in disguise"},
	{netip.MustParsePrefix("64:ff9b::/96"), "an address that carries another one"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an address that carries another one"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address, or one that carries another one"},
	{netip.MustParsePrefix("2001:db8::/32"), "a reserved address"},
	{netip.MustParsePrefix("2002::/16"), "an address that carries another one"},
	{netip.MustParsePrefix("3fff::/20"), "a reserved address"},
}

var publicIPv6 = netip.MustParsePrefix("2000::/3")

// notPublic says why an address is not to be reached without a rule of its own;
// empty when it is public.
func notPublic(addr netip.Addr) string {
	for _, s := range special {
		if s.net.Contains(addr) {
			return s.why
		}
	}
	if addr.Is6() && !publicIPv6.Contains(addr) {
		return "not a public address"
	}
	return onLink(addr)
}

// onLink says whether an address is in a network that this machine is part of: its
// own, and those of its neighbours, may serve those who are near.
func onLink(addr netip.Addr) string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "not known to be outside of this machine's own networks"
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.Contains(addr.AsSlice()) {
			return "in a network that this machine is part of"
		}
	}
	return ""
}
