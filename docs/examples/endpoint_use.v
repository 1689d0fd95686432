// The endpoint in another design: an accelerator's memory controller on one side, a link on the
// other. Made with
//   python -m hdl.build --top endpoint --config arty --set ranks=2
module my_accelerator (
  input clk, input rst,
  input from_valid, input [70:0] from_flit, input [7:0] from_credit,
  output to_valid, output [70:0] to_flit, output [7:0] to_credit,
  output [31:0] araddr, output [7:0] arlen, output arvalid, input arready,
  input [63:0] rdata, input [1:0] rresp, input rlast, input rvalid, output rready,
  output [31:0] awaddr, output [7:0] awlen, output awvalid, input awready,
  output [63:0] wdata, output [7:0] wstrb, output wlast, output wvalid, input wready,
  input [1:0] bresp, input bvalid, output bready,
  input operand_ready, input [31:0] epoch, output arrival_taken
);
  // -- snippet
  endpoint endpoint (.clk(clk), .rst(rst),
    .rx__valid(from_valid), .rx__flit(from_flit), .rx__credit(from_credit),
    .tx__valid(to_valid), .tx__flit(to_flit), .tx__credit(to_credit),
    .axi__araddr(araddr), .axi__arlen(arlen), .axi__arvalid(arvalid), .axi__arready(arready),
    .axi__rid(1'b0), .axi__rdata(rdata), .axi__rresp(rresp), .axi__rlast(rlast),
    .axi__rvalid(rvalid), .axi__rready(rready), .axi__awaddr(awaddr), .axi__awlen(awlen),
    .axi__awvalid(awvalid), .axi__awready(awready), .axi__wdata(wdata), .axi__wstrb(wstrb),
    .axi__wlast(wlast), .axi__wvalid(wvalid), .axi__wready(wready), .axi__bid(1'b0),
    .axi__bresp(bresp), .axi__bvalid(bvalid), .axi__bready(bready), .arrival__valid(operand_ready),
    .arrival__payload({4'd0, epoch}), .arrival__ready(arrival_taken));
  // -- end
endmodule
