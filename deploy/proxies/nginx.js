// gateway names the upstream of nginx.conf for a request: rank r of world_size w is at home at gateway floor(r*G/w), of G.
// A request without a rank, or with one that no gateway would take, goes to any.
function gateway(r) {
    const rank = r.variables.arg_rank, size = r.variables.arg_world_size;
    if (!/^\d{1,10}$/.test(rank) || !/^\d{1,10}$/.test(size) || Number(rank) >= Number(size)) {
        return 'gateways';
    }
    return 'gateway-' + Math.floor(Number(rank) * Number(r.variables.gateways) / Number(size));
}

export default { gateway };
