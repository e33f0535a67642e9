# A small web server: `perl web.pl PORT NAME`. What it does is in the path.
use strict; use IO::Socket::INET;
my ($port, $name) = @ARGV;
$SIG{CHLD} = "IGNORE"; $SIG{PIPE} = "DEFAULT";
my $server = IO::Socket::INET->new(Listen => 64, LocalAddr => "127.0.0.1", LocalPort => $port, ReuseAddr => 1)
    or die "$!\n";
while (1) {
    my $peer = $server->accept or next;
    if (fork == 0) { close $server; serve($peer); exit 0 }
    close $peer;
}

sub serve {
    my ($peer) = @_; $peer->autoflush(1); binmode $peer;
    my $head = ""; while (my $line = <$peer>) { $head .= $line; last if $line =~ /^\r?\n$/ }
    my ($method, $path) = $head =~ m{^(\S+) (\S+) HTTP/1\.1\r\n} or return;
    if ($path eq "/head") { answer($peer, $method, $head) }
    elsif ($path eq "/count") {
        my ($bytes, $sum) = (0, 0);
        body($peer, $head, sub { $bytes += length $_[0]; $sum = ($sum + unpack "%32C*", $_[0]) % 4294967296 });
        answer($peer, $method, "$bytes $sum");
    }
    elsif ($path eq "/big") {
        print $peer "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        my $piece = join "", map { chr } 0 .. 255; $piece x= 256;
        print $peer $piece for 1 .. 1024;
    }
    elsif ($path eq "/echo") {
        print $peer "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-heard\r\n\r\n";
        my $heard = 0;
        body($peer, $head, sub { $heard += length $_[0]; printf $peer "%x\r\n%s\r\n", length $_[0], $_[0] });
        print $peer "0\r\nx-heard: $heard\r\n\r\n";
    }
    elsif ($path eq "/early") {
        print $peer "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"; answer($peer, $method, "late");
    }
    elsif ($path eq "/socket" && $head =~ /^upgrade: websocket\r$/mi && $head =~ /^connection: upgrade\r$/mi) {
        print $peer "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello ";
        while (sysread $peer, my $piece, 65536) { syswrite $peer, uc $piece }
        syswrite $peer, " bye";
    }
    elsif ($path eq "/unasked") { print $peer "HTTP/1.1 101 Ho\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n" }
    elsif ($path eq "/broken") { print $peer "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes." }
    elsif ($path eq "/endless") {
        print $peer "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"; sleep 600;
    }
    elsif ($path eq "/silent") {
        open my $asked, ">", "asked"; close $asked; while (sysread $peer, my $piece, 1) { }
        open my $gone, ">", "gone"; close $gone;
    }
    elsif ($path eq "/garbage") { print $peer "SSH-2.0-none\r\n" }
    else { answer($peer, $method, "$name got $method $path") }
}

# Without the body for HEAD, as it must be.
sub answer {
    my ($peer, $method, $text) = @_;
    printf $peer "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nKeep-Alive: timeout=5\r\nX-Name: %s\r\n\r\n%s",
        length $text, $name, $method eq "HEAD" ? "" : $text;
}

# Calls back with every piece of the body.
sub body {
    my ($peer, $head, $take) = @_;
    my $read = sub {
        my $left = shift;
        while ($left > 0) {
            my $got = read $peer, my $piece, $left < 65536 ? $left : 65536; exit 1 unless $got;
            $take->($piece); $left -= $got;
        }
    };
    if ($head =~ /^content-length: (\d+)/mi) { $read->($1) }
    elsif ($head =~ /^transfer-encoding: chunked/mi) {
        while (my $size = hex((<$peer> =~ /^([0-9a-f]+)/i)[0])) { $read->($size); <$peer> }
        while (<$peer> !~ /^\r?\n$/) { }
    }
}
