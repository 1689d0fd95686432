// The switch in another design: two links each way, and its registers as a bus of 32-bit words.
// Made with
//   python -m hdl.build --top switch --config arty --set ranks=2
module my_switch (
  input clk, input rst,
  input [1:0] from_valid, input [141:0] from_flit, input [15:0] from_credit,
  output [1:0] to_valid, output [141:0] to_flit, output [15:0] to_credit,
  input [15:0] address, input write, input [31:0] write_data, input read, output [31:0] read_data
);
  reg [31:0] cycles = 0;
  always @(posedge clk) cycles <= rst ? 0 : cycles + 1;
  // -- snippet
  switch switch (.clk(clk), .rst(rst), .now(cycles),
    .rx__0__valid(from_valid[0]), .rx__1__valid(from_valid[1]),
    .rx__0__flit(from_flit[70:0]), .rx__1__flit(from_flit[141:71]),
    .rx__0__credit(from_credit[7:0]), .rx__1__credit(from_credit[15:8]),
    .tx__0__valid(to_valid[0]), .tx__1__valid(to_valid[1]),
    .tx__0__flit(to_flit[70:0]), .tx__1__flit(to_flit[141:71]),
    .tx__0__credit(to_credit[7:0]), .tx__1__credit(to_credit[15:8]),
    .bus__page(address[15:10]), .bus__word(address[9:2]), .bus__write(write),
    .bus__write_data(write_data), .bus__read(read), .bus__read_data(read_data));
  // -- end
endmodule
