// The quantizing reducer in another design: adds two vectors of eight int8 codes a cycle. Made with
//   python -m hdl.build --top inq-reducer --config arty --set ranks=2 --set formats=inq8
module block_adder (
  input clk, input rst,
  input valid, input last, input [63:0] a, input [63:0] b, input [15:0] scale_a, scale_b,
  output [63:0] codes, output codes_valid,
  output [15:0] scale, output scale_valid, output scale_nan, output scale_overflow
);
  // -- snippet
  localparam [1:0] BOTH = 2'b11;
  wire begins;
  inq_reducer adder (
    .clk(clk), .rst(rst),
    .i__valid(valid), .i__payload({last, BOTH, 8'hff, scale_b, scale_a, b, a}),
    .o__valid(codes_valid), .o__payload({scale_overflow, scale_nan, scale, begins, codes})
  );
  assign scale_valid = codes_valid & begins;
  // -- end
endmodule
