import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;

/** Reads an epoch from Millrace gateways with Java 11's own HTTP client, and prints a line for each sample. */
public final class Reader {
    private static final int MAGIC = ByteBuffer.wrap("MLRF".getBytes()).getInt();
    private static final Set<Integer> RETRYABLE = Set.of(408, 429, 500, 503, 504);

    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(10)).build();
    private final List<String> gateways;
    private HttpHeaders headers; // of the last answer

    private Reader(List<String> gateways) {
        this.gateways = gateways;
    }

    public static void main(String[] args) throws InterruptedException {
        String plan = System.getenv().getOrDefault("MILLRACE_PLAN", "");
        String path = "/v1/datasets/" + System.getenv("MILLRACE_DATASET") + "/epochs/" + System.getenv("MILLRACE_EPOCH")
                + "/batches/0?format=framed" + (plan.isEmpty() ? "" : "&" + plan);
        Reader reader = new Reader(Arrays.asList(System.getenv("MILLRACE_URL").split(" ")));
        Pattern next = Pattern.compile("<(.*)>; rel=\"next\"");
        while (path != null) {
            byte[] body = reader.get(path);
            print(reader.header("Millrace-Batch"), body);
            Matcher link = next.matcher(reader.header("Link")); // it pins the generation
            path = link.matches() ? link.group(1) : null;
        }
    }

    /** The body of a batch: retried, resumed, checked. The gateway that answers is moved to the front. */
    private byte[] get(String path) throws InterruptedException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        long size = 0;
        String etag = "";
        long end = System.nanoTime() + Duration.ofSeconds(120).toNanos();
        for (int attempt = 1;; attempt++) {
            long pause = Math.min(100L << Math.min(attempt, 6), 5000);
            try {
                HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(gateways.get(0) + path)).timeout(Duration.ofSeconds(60));
                if (body.size() > 0) {
                    request.header("Range", "bytes=" + body.size() + "-").header("If-Range", etag);
                }
                HttpResponse<InputStream> answer = client.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
                int status = answer.statusCode();
                headers = answer.headers();
                try (InputStream in = answer.body()) {
                    if (status == 200) { // the whole of it, even for a range
                        body.reset();
                        size = headers.firstValueAsLong("Content-Length").orElse(-1);
                        etag = header("ETag");
                    } else if (RETRYABLE.contains(status) || !header("Retry-After").isEmpty()) {
                        pause = headers.firstValueAsLong("Retry-After").orElse(-1) < 0 ? pause : 1000 * Long.parseLong(header("Retry-After"));
                        throw new IOException("status " + status);
                    } else if (status != 206 || !header("Content-Range").startsWith("bytes " + body.size() + "-")) {
                        fail(path + ": status " + status + ": " + new String(in.readAllBytes()));
                    }
                    in.transferTo(body); // what it has before it throws is kept
                }
                if (body.size() < size) {
                    throw new IOException(body.size() + " of " + size + " bytes");
                }
                if (crc32c(body.toByteArray(), 0, body.size()).equals(header("Millrace-Crc32c"))) {
                    return body.toByteArray();
                }
                body.reset(); // the damage could be anywhere
                throw new IOException("wrong CRC-32C");
            } catch (IOException e) {
                if (System.nanoTime() > end) {
                    fail(gateways.get(0) + path + ": " + e + ", given up after 120 s");
                }
                Collections.rotate(gateways, -1);
                if (attempt % gateways.size() == 0) { // all of them were asked
                    Thread.sleep(pause);
                }
            }
        }
    }

    /** Prints the samples of a framed body: its header has 40 bytes, and lengths follow. */
    private static void print(String batch, byte[] body) {
        ByteBuffer table = ByteBuffer.wrap(body);
        int magic = table.getInt(0);
        table.order(ByteOrder.LITTLE_ENDIAN);
        int at = table.getInt(28);
        if (magic != MAGIC || at + table.getLong(32) != body.length) {
            fail("this is not the framed form");
        }
        for (int i = 0; i < table.getInt(8); i++) {
            int length = table.getInt(40 + 4 * i);
            System.out.println(batch + " " + i + " " + length + " " + crc32c(body, at, length));
            at += length;
        }
    }

    private static String crc32c(byte[] bytes, int offset, int length) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, offset, length);
        return String.format("%08x", crc.getValue());
    }

    private String header(String name) {
        return headers.firstValue(name).orElse("");
    }

    private static void fail(String text) {
        System.err.println(text);
        System.exit(1);
    }
}
